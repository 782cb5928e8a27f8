package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// Whenever a server is killed while it writes, the state before or after is there.
func TestStateTorn(t *testing.T) {
	f, err := newStateFile(state{Identity: "it", Init: []byte("init"), Later: map[uint64]string{}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for n := range 5 {
		before := f.takenOver()
		if err := f.change(func(s *state) { s.Taken++; s.Later[uint64(n)] = "sum" }); err != nil {
			t.Fatal(err)
		}
		at := int64(f.writes%2) * stateCopy
		whole := make([]byte, stateCopy)
		if _, err := unix.Pread(f.fd, whole, at); err != nil {
			t.Fatal(err)
		}
		length := stateHeader + int(binary.LittleEndian.Uint32(whole[4:]))
		for cut := range length {
			torn := bytes.Clone(whole)
			clear(torn[cut:length])
			if _, err := unix.Pwrite(f.fd, torn, at); err != nil {
				t.Fatal(err)
			}
			got, err := openStateFile(f.fd)
			if err != nil || got.takenOver() != before {
				t.Fatalf("write %d, cut at %d: %v", f.writes, cut, err)
			}
		}
		if _, err := unix.Pwrite(f.fd, whole, at); err != nil {
			t.Fatal(err)
		}
		got, err := openStateFile(f.fd)
		if err != nil || got.writes != f.writes || fmt.Sprint(got.state) != fmt.Sprint(f.state) {
			t.Fatalf("%+v, %v; want %+v", got, err, f.state)
		}
	}
	other, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	if _, err := openStateFile(other); !errors.Is(err, errNoState) {
		t.Errorf("an empty file: %v", err)
	}
	long := f.change(func(s *state) { s.Mountpoint = string(make([]byte, stateCopy)) })
	if long == nil {
		t.Error("a state that does not fit was written")
	}
}

// A digest differs wherever a node, or what the kernel may remember of it, does.
func TestDigest(t *testing.T) {
	text := func(s string) tensorfs.Data {
		return tensorfs.NewText(1, func(dst []byte, _ int) []byte { return append(dst, s...) })
	}
	trees := []tensorfs.Entries{
		{}, {file("a", "x")}, {file("b", "x")}, {file("a", "xx")}, {file("a", "x"), file("b", "x")}, {{Name: "a", Link: "x"}}, {{Name: "a", Link: "y"}},
		{{Name: "a", Dir: tensorfs.Entries{}}}, {{Name: "a", Dir: tensorfs.Entries{file("x", "x")}}}, {{Name: "a", Dir: tensorfs.Entries{file("x", "x")}}, file("x", "x")},
		{{Name: "a", Data: text("x")}}, {{Name: "a", Dir: &tensorfs.Later{}}},
	}
	seen := map[string]int{}
	for i, tree := range trees {
		n, err := newNodes(tree)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[n.digest()]; twice {
			t.Errorf("trees %d and %d have one digest", other, i)
		}
		seen[n.digest()] = i
	}
	same := Options{Identity: "1", ModTime: modTime}
	f := newTest(t, trees[1], same)
	for _, o := range []Options{
		{Identity: "2", ModTime: modTime}, {Identity: "1", ModTime: modTime, FsName: "x"}, {Identity: "1", ModTime: modTime, AllowOther: true},
		{Identity: "1", ModTime: modTime, Extra: []string{"umask=077"}}, {Identity: "1", ModTime: modTime.Add(1)},
	} {
		if newTest(t, trees[1], o).identity() == f.identity() {
			t.Errorf("%+v: the same identity", o)
		}
	}
	if newTest(t, trees[1], same).identity() != f.identity() {
		t.Error("the same mount has two identities")
	}
}

// loggedKeeper prints every request on standard error, and keeps nothing.
type loggedKeeper struct{}

func (k loggedKeeper) say(what string) error {
	fmt.Fprintln(os.Stderr, "the keeper is asked to", what)
	return nil
}

func (k loggedKeeper) Get() (map[string]int, error)  { return nil, k.say("get") }
func (k loggedKeeper) Put(name string, fd int) error { return k.say("put " + name) }
func (k loggedKeeper) Clear() error                  { return k.say("clear") }
func (k loggedKeeper) Drop() error                   { return k.say("drop") }

// Before Linux 6.9 no mount can be kept. When the server is killed, readers get an error immediately instead of waiting
// for ever, and the model can be mounted there again.
func TestKeptWithoutResend(t *testing.T) {
	model := newModel(t, 5<<20)
	s := serve(t, "model", model, "kept=")
	testlimit.Wait(t, "end of keeping", func() bool { return strings.Contains(s.log.String(), "asked to drop") })
	if log := s.log.String(); !strings.Contains(log, "takes Linux 6.9") || strings.Contains(log, "asked to put") {
		t.Errorf("it said %s", log)
	}
	open, err := os.Open(s.path("f16/f.large"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	s.kill()
	if _, err := io.ReadAll(open); !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("reading when the server is gone: %v", err)
	}
	anew := serveAt(t, s.mountpoint, "model", model, "kept=")
	anew.run("readall", anew.mountpoint, anew.sizeArg())
}

// A server that keeps its mount waits for requests only with buffers whose pages are present, also where Go has given all
// free memory back: without a page, a request that comes while the server is killed ends with EIO.
func TestKeptBuffersPresent(t *testing.T) {
	s := serve(t, "model", newModel(t, 5<<20), "kept=")
	for range 4 {
		s.run("readall", s.mountpoint, s.sizeArg())
		var waiting []uint64
		testlimit.Wait(t, "thread that waits for a request", func() bool {
			waiting = requestBuffers(t, s.cmd.Process.Pid)
			return len(waiting) > 0
		})
		for _, at := range waiting {
			for page := at &^ 4095; page < at+longestRequest; page += 4096 {
				if !present(t, s.cmd.Process.Pid, page) {
					t.Errorf("the buffer at %#x: the page at %#x is not present", at, page)
				}
			}
		}
		s.ask("give memory back")
	}
}

// requestBuffers returns where the threads of a process read requests into.
func requestBuffers(t *testing.T, pid int) (at []uint64) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(tasks) == 0 {
		t.Skip("NOT TESTED: buffers, because this kernel does not say what threads wait for")
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
			t.Skipf("NOT TESTED: buffers, because this user may not see what threads wait for: %v", err)
		}
		var call, fd, buf, size uint64
		if _, err := fmt.Sscanf(string(b), "%d %v %v %v", &call, &fd, &buf, &size); err == nil && call == unix.SYS_READ && size > maxRequest {
			at = append(at, buf)
		}
	}
	return at
}

// present reports whether a process has the page of an address in memory.
func present(t *testing.T, pid int, at uint64) bool {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		t.Skipf("NOT TESTED: buffers, because this user may not see which pages there are: %v", err)
	}
	defer f.Close()
	entry := make([]byte, 8)
	if _, err := f.ReadAt(entry, int64(at/uint64(os.Getpagesize())*8)); err != nil {
		t.Fatal(err)
	}
	return entry[7]&0x80 != 0
}

// Kernels before Linux 6.9 send no request again, and say so.
func TestResends(t *testing.T) {
	message := func(flags2 uint64) []byte {
		b := make([]byte, 104)
		binary.NativeEndian.PutUint32(b[initFlags2:], uint32(flags2>>32))
		return b
	}
	for _, c := range []struct {
		init []byte
		want bool
	}{{nil, false}, {message(0)[:56], false}, {message(0), false}, {message(fuse.CAP_PASSTHROUGH), false}, {message(fuse.CAP_HAS_RESEND), true}, {message(fuse.CAP_HAS_RESEND | fuse.CAP_PASSTHROUGH), true}} {
		if resends(c.init) != c.want {
			t.Errorf("%x: %v", c.init, !c.want)
		}
	}
}
