package cli

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestProgressBar(t *testing.T) {
	for _, test := range []struct {
		done, total int64
		after       time.Duration
		width       int
		want        string
	}{
		{0, 4 << 30, 0, 0, "verify [                    ]   0 %, 0 B of 4.0 GiB"},
		{1 << 30, 4 << 30, 2 * time.Second, 0, "verify [#####               ]  25 %, 1.0 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left"},
		{1 << 30, 4 << 30, 2 * time.Second, 80, "verify [#####               ]  25 %, 1.0 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left"},
		{1 << 30, 4 << 30, 2 * time.Second, 76, "verify  25 %, 1.0 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left"},
		{1 << 30, 4 << 30, 2 * time.Second, 48, "verify  25 %, 1.0 GiB of 4.0 GiB, 512.0 MiB/s"},
		{1 << 30, 4 << 30, 2 * time.Second, 40, "verify  25 %, 1.0 GiB of 4.0 GiB"},
		{1 << 30, 4 << 30, 2 * time.Second, 20, "verify  25 %"},
		{1 << 30, 4 << 30, 2 * time.Second, 9, "verify  "},
		{1 << 30, 4 << 30, 2 * time.Second, 1, ""},
		{1 << 20, 1 << 40, time.Second, 0, "verify [                    ]   0 %, 1.0 MiB of 1.0 TiB, 1.0 MiB/s, 291 h 16 min left"},
		{1 << 30, 1 << 40, time.Second, 0, "verify [                    ]   0 %, 1.0 GiB of 1.0 TiB, 1.0 GiB/s, 17 min 3 s left"},
		{2 << 30, 1 << 30, time.Second, 0, "verify [####################] 100 %, 2.0 GiB of 1.0 GiB, 2.0 GiB/s"},
		{0, 0, time.Second, 0, "verify [####################] 100 %, 0 B of 0 B"},
	} {
		b := &ProgressBar{what: "verify", done: test.done, total: test.total, width: func() int { return test.width }}
		if got := b.line(test.after); got != test.want {
			t.Errorf("%d of %d after %v in %d columns:\n%q, want\n%q", test.done, test.total, test.after, test.width, got, test.want)
		}
	}
}

// TestBarOfRest holds that what was there before counts as done, and not as fast.
func TestBarOfRest(t *testing.T) {
	b := &ProgressBar{what: "fetch", done: 3 << 30, total: 4 << 30, width: func() int { return 0 }, From: 2 << 30, Moved: func() int64 { return 1 << 29 }}
	if got, want := b.line(2*time.Second), "fetch [############        ]  62 %, 2.5 GiB of 4.0 GiB, 256.0 MiB/s, 6 s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A bar is not drawn again and again, but at once after other text took its place.
func TestBarDraws(t *testing.T) {
	var out bytes.Buffer
	b := &ProgressBar{w: &out, what: "verify", total: 1 << 40, began: time.Now(), width: func() int { return 0 }}
	for range 1000 {
		b.Add(1)
	}
	if n := strings.Count(out.String(), "verify"); n == 0 || n == 1000 {
		t.Errorf("drawn %d times", n)
	}
	out.Reset()
	b.next = time.Now().Add(time.Hour)
	b.Add(1)
	b.Clear()
	if out.String() != "\r\x1b[K" {
		t.Errorf("clear leaves %q", out.String())
	}
	b.Add(1)
	if !strings.Contains(out.String(), "verify") {
		t.Error("not drawn after it was cleared")
	}
}

// Nothing is drawn without a terminal.
func TestProgressWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	b := Progress(&out, "verify", 1)
	b.Add(1)
	b.Clear()
	if out.Len() > 0 {
		t.Errorf("drawn into a buffer: %q", out.String())
	}
}

// TestProgressAbove holds that no bar is drawn into a line that is printed above it.
func TestProgressAbove(t *testing.T) {
	var out bytes.Buffer
	b := &ProgressBar{w: &out, what: "verify", total: 1 << 40, began: time.Now(), width: func() int { return 0 }}
	added := make(chan bool)
	b.Above(func() {
		go func() { b.Add(1); close(added) }()
		for range 1000 {
			runtime.Gosched()
		}
		out.WriteString("a finding\n")
	})
	<-added
	if !strings.HasPrefix(out.String(), "\r\x1b[Ka finding\n\r\x1b[Kverify") {
		t.Errorf("the terminal gets %q", out.String())
	}
}
