//go:build linux

// Command slowdisk shows a directory as a slow disk, until its standard input ends:
//
//	slowdisk -latency 20ms -rate 2000 -at-once 16 -read-ahead 128 DIR MOUNTPOINT
//
// It prints a line when the disk is mounted.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testslow"
)

func main() {
	latency := flag.Duration("latency", 20*time.Millisecond, "from a request to its first byte")
	rate := flag.Int64("rate", 1000, "megabytes per second")
	atOnce := flag.Int("at-once", 16, "requests under way at once")
	readAhead := flag.Int("read-ahead", 128, "the kernel's read-ahead in KiB")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	disk := testslow.Disk{Latency: *latency, Rate: *rate * 1e6, AtOnce: *atOnce, ReadAhead: *readAhead << 10}
	mounted, err := disk.Mount(flag.Arg(0), flag.Arg(1))
	if err == nil {
		fmt.Println("mounted")
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = mounted.Unmount()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowdisk:", err)
		os.Exit(1)
	}
}
