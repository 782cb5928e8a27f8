package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// faultVariable names a step after which this process is killed, for tests.
const faultVariable = "TENSORFS_CSI_FAULT"

// faultPoints are the steps that it may name, in the order of a publish and an unpublish.
var faultPoints = []string{"started", "ready", "made", "recorded", "bound", "protected", "detached", "removed", "forgotten"}

func fault(step string) {
	if os.Getenv(faultVariable) == step {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL) // a process may kill itself
		select {}
	}
}
