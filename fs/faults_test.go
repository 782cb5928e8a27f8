package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// healthOf reads the attribute as status does.
func healthOf(t *testing.T, f *rawFS) (h Health) {
	t.Helper()
	root := header(fuse.FUSE_ROOT_ID)
	b := make([]byte, 64<<10)
	n, st := f.GetXAttr(nil, &root, mounts.AttrPrefix+"health", b)
	if !st.Ok() || n > maxAttr {
		t.Fatalf("%v, %d bytes", st, n)
	}
	if err := json.Unmarshal(b[:n], &h); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHealth(t *testing.T) {
	var log bytes.Buffer
	var checked error
	f := newTest(t, tensorfs.Entries{file("a", "x")}, Options{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		Check:  func() error { return checked },
	})
	if h := healthOf(t, f); len(h.Changed) != 0 || len(h.Errors) != 0 {
		t.Errorf("of a new one: %+v", h)
	}
	l := f.opts.Logger.With("who", "test")
	l.Info("not kept")
	l.Warn("kept though not logged", "n", 1)
	l.Error("kept", "text", "two words\u202e", "empty", "")
	h := healthOf(t, f)
	if len(h.Errors) != 1 || len(h.Warnings) != 1 || h.Warnings[0].Message != "kept though not logged who=test n=1" ||
		h.Errors[0].Message != `kept who=test text="two words\u202e" empty=""` || h.Errors[0].Time.IsZero() || h.Warnings[0].Time.IsZero() {
		t.Errorf("%+v", h)
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "msg=kept who=test") {
		t.Errorf("the log: %s", &log)
	}

	checked = errors.Join(fmt.Errorf("x: %w", &tensorfs.ChangedError{File: "/a"}), nil, &tensorfs.ChangedError{File: "/b"})
	for range 3 {
		if h = healthOf(t, f); len(h.Changed) != 2 || h.Changed[0] != "/a" || h.Changed[1] != "/b" || len(h.Errors) != 3 {
			t.Errorf("changed: %+v", h)
		}
	}
	// A bound on everything: how many, how long, and all of it in one attribute.
	long := strings.Repeat("\x01\"", 5000)
	for i := range 100 {
		f.opts.Logger.Error(fmt.Sprintf("%d %s", i, long), "more", long)
		f.opts.Logger.Warn(fmt.Sprintf("%d %s", i, long), "more", long)
		f.noteChanged(&tensorfs.ChangedError{File: fmt.Sprintf("/%d%s", i, long[:2000])}, "")
	}
	h = healthOf(t, f)
	if len(h.Changed) == 0 || len(h.Changed) > maxChanged || len(h.Errors) > maxFaults || len(h.Warnings) > maxFaults {
		t.Errorf("%d changed files, %d and %d messages", len(h.Changed), len(h.Errors), len(h.Warnings))
	}
	if len(f.errors) != maxFaults || len(f.warning) != maxFaults || len(f.changed) != maxChanged {
		t.Errorf("it keeps %d and %d messages, %d files", len(f.errors), len(f.warning), len(f.changed))
	}
	for _, m := range append(f.errors, f.warning...) {
		if len(m.Message) > maxMessageBytes+10 {
			t.Errorf("a message of %d bytes", len(m.Message))
		}
	}
}

// A bound on what is logged of nodes that fail: how many in all, and how many at a time.
func TestFirst(t *testing.T) {
	f := NewFaults(nil)
	said, lasts, now := 0, 0, time.Now()
	for id := range uint64(3 * maxCauses) {
		if fault, _, last := f.first(id, now); fault != nil {
			said++
			lasts += btoi(last)
		}
		now = now.Add(burstPeriod / burst)
	}
	if said != maxCauses || lasts != 1 {
		t.Errorf("%d files complained of and %d times the last, want %d and 1", said, lasts, maxCauses)
	}
	f, said = NewFaults(nil), 0
	for id := range uint64(3 * burst) {
		if fault, _, _ := f.first(id, now); fault != nil {
			said++
		}
	}
	if said != burst || !f.quiet(9999, now) {
		t.Errorf("%d files complained of at a time, want %d", said, burst)
	}
	if fault, omitted, _ := f.first(9999, now.Add(burstPeriod)); fault == nil || omitted != 2*burst {
		t.Errorf("after the burst: %v, and %d were left out", fault, omitted)
	}
}

// One cause is one line, however often and wherever it is met.
func TestFaultsCount(t *testing.T) {
	var log bytes.Buffer
	f := NewFaults(slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 3 {
		f.Failed(7, "raw/a", int64(i), errors.New("no bytes"))
		f.Failed(uint64(i), "raw/b", 0, fmt.Errorf("x: %w", &tensorfs.ChangedError{File: "/m"}))
	}
	h := f.Health(nil, nil, "")
	if strings.Count(log.String(), "\n") != 2 || len(h.Errors) != 2 || len(h.Changed) != 1 {
		t.Fatalf("%+v, log:\n%s", h, &log)
	}
	want := []string{`read failed file=raw/a offset=0 error="no bytes"`, "a file of the model changed"}
	for i, e := range h.Errors {
		if e.Count != 3 || !strings.HasPrefix(e.Message, want[i]) || e.Time.IsZero() {
			t.Errorf("%+v, want 3 of %s", e, want[i])
		}
	}
}
