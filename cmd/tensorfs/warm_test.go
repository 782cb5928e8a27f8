package main

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// The read-ahead of a mount or of one view, and its progress in status.
func TestWarm(t *testing.T) {
	needFUSE(t)
	all := int64(0)
	for _, c := range []struct {
		flags []string
		view  string
	}{{[]string{"--warm"}, "all"}, {[]string{"--warm=f16"}, "f16"}, {[]string{"-o", "warm=raw"}, "raw"}, {[]string{"-o", "warm"}, "all"}} {
		dir := mounted(t, q8, c.flags...)
		var st *mountStatus
		testlimit.Wait(t, "end of warming", func() bool {
			st = statusOf(t, dir)
			return st.Warm != nil && st.Warm.Done == st.Warm.Total
		})
		if all == 0 {
			all = st.Warm.Total
		}
		if w := st.Warm; w.View != c.view || w.Ended != "" || w.Total != all || all == 0 {
			t.Errorf("%v: %+v", c.flags, w)
		}
		if _, out, _ := command("status"); !strings.Contains(out, " read ahead ("+c.view+")\n") {
			t.Errorf("%v: %s", c.flags, out)
		}
	}
	if st := statusOf(t, mounted(t, q8)); st.Warm != nil {
		t.Errorf("%+v without --warm", st.Warm)
	}
	code, _, stderr := command("mount", "--warm=f17", q8, t.TempDir())
	if code != 2 || !strings.Contains(stderr, `--warm: "f17" is not a view`) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
