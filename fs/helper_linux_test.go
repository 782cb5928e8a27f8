package fs

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A helper is in a process group of its own, so that what ends the server's (a
// Ctrl-C) does not end it between mounting and handing over the device.
func TestHelperIsApart(t *testing.T) {
	err := run(exec.Command("sh", "-c", `read -r pid name state parent group rest </proc/$$/stat; echo "group $group"; exit 1`))
	if err == nil || !strings.HasPrefix(err.Error(), "group ") || err.Error() == "group "+strconv.Itoa(unix.Getpgrp()) {
		t.Errorf("%v, ours is %d", err, unix.Getpgrp())
	}
}
