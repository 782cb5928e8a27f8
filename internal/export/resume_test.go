package export

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// asExporter makes the test binary export to a directory until it waits in a read.
const asExporter = "TENSORFS_TEST_EXPORT_TO"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asExporter); dir != "" {
		_, _ = Run(context.Background(), dir, killed(stuckAt), options())
		os.Exit(3) // not reached
	}
	os.Exit(m.Run())
}

const (
	killedSize = 100_000
	stuckAt    = 60_000
)

// stuck is Data whose bytes from some offset on never come.
type stuck struct {
	reader
	from int64
}

func (s stuck) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > s.from {
		time.Sleep(testlimit.Patience)
	}
	return s.reader.ReadAt(p, off)
}

// killed are the files of an export that is killed: small ones, and a large one that is not
// complete.
func killed(from int64) []File {
	return []File{
		{Path: "v/small", Data: tensorfs.Bytes("small")},
		{Path: "v/large", Data: stuck{newReader(random(killedSize)), from}},
		{Path: "index", Data: tensorfs.Bytes("index"), Last: true},
	}
}

// kill starts an export in a process of its own and kills it amid the large file.
func kill(t *testing.T, dir string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), asExporter+"="+dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "10 stretches and the small file", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, stateDir, logName))
		_, err := os.Stat(filepath.Join(dir, "v/small"))
		return bytes.Count(b, []byte(`"stretch"`)) >= 10 && err == nil && len(partials(t, dir)) == 1
	})
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // it was killed
	holds(t, dir, map[string][]byte{"v/small": []byte("small")})
	if len(partials(t, dir)) != 1 {
		t.Fatalf("%q", partials(t, dir))
	}
}

// resume runs the same export to its end and returns how much was read of the
// large file.
func resume(t *testing.T, dir string, o Options) int64 {
	t.Helper()
	files := killed(killedSize)
	large := newReader(random(killedSize))
	files[1].Data = large
	must(t, dir, files, o)
	holds(t, dir, map[string][]byte{"v/small": []byte("small"), "v/large": random(killedSize), "index": []byte("index")})
	return large.read.Load()
}

// TestKilled goes on with an export that was killed, and does not do again what
// was done.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	kill(t, dir)
	if n := resume(t, dir, options()); n < killedSize-stuckAt || n > killedSize-10*options().stretch {
		t.Errorf("%d of %d bytes were read again", n, killedSize)
	}
}

// TestKilledThenTampered takes nothing from a partial file that is not the one
// that the log speaks of.
func TestKilledThenTampered(t *testing.T) {
	for name, tamper := range map[string]func(partial string) error{
		"removed":   os.Remove,
		"truncated": func(p string) error { return os.Truncate(p, killedSize/2) },
		"no log":    func(p string) error { return os.Remove(filepath.Join(filepath.Dir(p), "log")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			kill(t, dir)
			if err := tamper(partials(t, dir)[0]); err != nil {
				t.Fatal(err)
			}
			if n := resume(t, dir, options()); n != killedSize {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
	// A resumed export is refused if the model's facts have changed, also with force.
	dir := t.TempDir()
	kill(t, dir)
	o := options()
	o.Facts[0].Is = "/other"
	fails(t, dir, killed(killedSize), o, "its model is /m, not /other")
	holds(t, dir, map[string][]byte{"v/small": []byte("small")})
	o.Force = true
	if n := resume(t, dir, o); n != killedSize {
		t.Errorf("%d bytes were read", n)
	}
	// A large file that was started over after its removal is refused too.
	dir = t.TempDir()
	kill(t, dir)
	if err := os.Remove(partials(t, dir)[0]); err != nil {
		t.Fatal(err)
	}
	files := killed(killedSize)
	files[1].Data = unreadable{files[1].Data}
	fails(t, dir, files, options(), "read")
	if n := resume(t, dir, options()); n != killedSize {
		t.Errorf("%d bytes were read", n)
	}
}

// TestCutLog goes on from a log that ends anywhere.
func TestCutLog(t *testing.T) {
	whole := t.TempDir()
	kill(t, whole)
	log, err := os.ReadFile(filepath.Join(whole, stateDir, logName))
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadFile(filepath.Join(whole, stateDir, stateName))
	if err != nil {
		t.Fatal(err)
	}
	partial, err := os.ReadFile(partials(t, whole)[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "\n"); n < 10 {
		t.Fatalf("%d lines", n)
	}
	for n := 0; n <= len(log); n += 7 {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, stateDir), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{logName: log[:n], stateName: state, partialName("v/large"): partial} {
			if err := os.WriteFile(filepath.Join(dir, stateDir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		resume(t, dir, options())
		files := killed(killedSize) // the records after the line that was cut count
		for i := range files {
			files[i].Data = unreadable{files[i].Data}
		}
		must(t, dir, files, options())
	}
}
