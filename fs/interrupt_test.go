package fs

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// distant is Data that never comes: its readers wait until they give up.
type distant struct{ *bytes.Reader }

func (distant) ReadAtContext(ctx context.Context, _ []byte, _ int64) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestInterrupt gives up reads: what may have to wait ends, all else is answered.
func TestInterrupt(t *testing.T) {
	var log strings.Builder
	near := bytes.NewReader([]byte("near"))
	f := newTest(t, tensorfs.Entries{{Name: "far", Data: distant{near}}, {Name: "near", Data: near}}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	cancelled := make(chan struct{})
	close(cancelled)
	for name, want := range map[string]fuse.Status{"far": fuse.EINTR, "near": fuse.OK} {
		out := walkTo(t, f, name)
		if _, st := f.Read(cancelled, &fuse.ReadIn{InHeader: header(out.NodeId), Size: 4}, make([]byte, 4)); st != want {
			t.Errorf("%s: %v, want %v", name, st, want)
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", &log)
	}
	// It waits until then.
	cancel, done := make(chan struct{}), make(chan fuse.Status)
	out := walkTo(t, f, "far")
	go func() {
		_, st := f.Read(cancel, &fuse.ReadIn{InHeader: header(out.NodeId), Size: 4}, make([]byte, 4))
		done <- st
	}()
	select {
	case st := <-done:
		t.Errorf("%v before it was given up", st)
	default:
	}
	close(cancel)
	if st := <-done; st != fuse.EINTR {
		t.Error(st)
	}
}
