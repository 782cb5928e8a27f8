//go:build !linux

package main

import "github.com/tensorfs/tensorfs/internal/cli"

// exerciseMain, soakMain and readMain are for Linux, where the mounts are that they read.
func exerciseMain(string) int { return cli.ExitFailed }
func soakMain(string) int     { return cli.ExitFailed }
func readMain(string) int     { return cli.ExitFailed }

// deafMain is for Linux.
func deafMain() { panic("there is no filter of system calls here") }
