//go:build !linux

package main

// exerciseMain is for Linux, where the mounts are that it reads.
func exerciseMain(string) int { return exitFailed }
