//go:build !linux

package main

// exerciseMain, soakMain and readMain are for Linux, where the mounts are that they read.
func exerciseMain(string) int { return exitFailed }
func soakMain(string) int     { return exitFailed }
func readMain(string) int     { return exitFailed }

// deafMain is for Linux.
func deafMain() { panic("there is no filter of system calls here") }
