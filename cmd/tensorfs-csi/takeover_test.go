package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"golang.org/x/sys/unix"
)

// startKeeper starts tensorfs keep and returns its socket.
func startKeeper(t *testing.T) string {
	t.Helper()
	socket := keeperSocket(t)
	keepAt(t, socket)
	return socket
}

// keeperSocket is the path of a socket, which has to be short.
func keeperSocket(t *testing.T) string {
	t.Helper()
	needMounts(t)
	dir, err := os.MkdirTemp("", "csi-keep-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func keepAt(t *testing.T, socket string) {
	t.Helper()
	cmd := exec.Command(program, "keep", "--socket", socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()         // killed
	})
	eventually(t, "the keeper listens", func() bool { _, err := os.Stat(socket); return err == nil })
}

// A driver that is there before the keeper, as may be when a node starts, waits for it: its mounts outlive their servers.
func TestKeeperLater(t *testing.T) {
	t.Parallel()
	socket := keeperSocket(t)
	r := newRig(t, "--keeper="+socket)
	published := make(chan error, 1)
	go func() { published <- r.publish("a", llama(), nil) }()
	eventually(t, "the driver is about to start a server", func() bool {
		entries, err := os.ReadDir(filepath.Join(r.dir, "mounts"))
		return err == nil && len(entries) == 1
	})
	keepAt(t, socket)
	must(t, <-published)
	key := r.keys()[0]
	device, pid := r.device("a"), r.server(key)
	must(t, unix.Kill(pid, unix.SIGKILL))
	eventually(t, "another server is there", func() bool { now := r.server(key); return now != 0 && now != pid })
	if got := r.device("a"); got != device {
		t.Errorf("device %s, want %s", got, device)
	}
	r.mustUnpublish("a")
	r.mustBeClean()
}

// bigModel is a model of some megabytes, so that a server can be killed while it is read.
func bigModel(t *testing.T) string {
	t.Helper()
	const rows, columns = 2048, 2048
	g := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "none"}}}
	for i := range 2 {
		b := make([]byte, rows*columns*2) // as F16: finite numbers of all kinds
		for k := range b {
			b[k] = byte(k*7+k>>11+i) & 0x3b
		}
		g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: fmt.Sprintf("t%d.weight", i), Shape: []int64{rows, columns}, Type: 1, Data: b})
	}
	model := filepath.Join(t.TempDir(), "big.gguf")
	must(t, os.WriteFile(model, g.Bytes(), 0o600))
	return model
}

// kills is how often a server is killed under a reader.
const kills = 5

// A server is killed again and again under pods that read: they see no error and no other byte.
func TestTakeover(t *testing.T) {
	t.Parallel()
	socket := startKeeper(t)
	model := bigModel(t)
	address := freePort(t)
	r := newRig(t, "--keeper="+socket, "--local="+filepath.Dir(model), "--metrics="+address)
	r.mustPublish(attrs{"model": model, "path": "f32"}, nil, "a")
	r.mustPublish(attrs{"model": model, "path": "."}, nil, "b")
	key := r.keys()[0]
	device := r.device("a")
	want := wanted(t, model, "f32/t0.weight")
	var over atomic.Bool
	var reads atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		path := filepath.Join(r.target("a"), "t0.weight")
		if i%2 == 1 {
			path = filepath.Join(r.target("b"), "f32/t0.weight")
		}
		all.Go(func() {
			for !over.Load() {
				f, err := os.Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // or it stays in memory and is read from there
				f.Close()
				got, err := digest(path)
				if err != nil || got != want {
					t.Errorf("%s: digest %s, want %s: %v", path, got, want, err)
					return
				}
				reads.Add(1)
			}
		})
	}
	for range kills {
		before := reads.Load()
		eventually(t, "pods read", func() bool { return reads.Load() > before+2 || t.Failed() })
		pid := r.server(key)
		if pid == 0 {
			t.Error("no server answers")
			break
		}
		must(t, unix.Kill(pid, unix.SIGKILL))
		eventually(t, "another server is there", func() bool { now := r.server(key); return now != 0 && now != pid })
	}
	over.Store(true)
	all.Wait()
	t.Logf("%d kills, %d files read", kills, reads.Load())
	if got := r.device("a"); got != device {
		t.Errorf("device %s, want %s", got, device)
	}

	if text := page(t, address, "/metrics"); !strings.Contains(text, fmt.Sprintf("tensorfs_takeovers_total{result=\"taken\"} %d\n", kills)) {
		t.Errorf("no %d takeovers in the metrics", kills)
	}

	// The driver and the server are killed together, as when their container ends. The pod's next read waits for the next driver.
	r.kill()
	must(t, unix.Kill(r.server(key), unix.SIGKILL))
	next := make(chan string, 1)
	go func() {
		sum, err := digest(filepath.Join(r.target("b"), "raw/t1.weight"))
		next <- fmt.Sprint(sum, err)
	}()
	r.start()
	if got, want := <-next, fmt.Sprint(wanted(t, model, "raw/t1.weight"), nil); got != want {
		t.Errorf("after both were killed: %s, want %s", got, want)
	}
	r.mustUnpublish("a", "b")
	r.mustBeClean()
}

// A server with secrets that is killed together with the driver waits for kubelet, and its mount too.
func TestTakeoverWithSecrets(t *testing.T) {
	t.Parallel()
	socket := startKeeper(t)
	r, _, model := hubRig(t, "--keeper="+socket)
	r.mustPublish(with(model, "path", "gguf"), attrs{"token": tokenA}, "a", "b")
	device, pid := r.device("a"), r.server(r.keys()[0])
	must(t, unix.Kill(pid, unix.SIGKILL))
	eventually(t, "the driver starts another server: it has the secrets", func() bool { now := r.server(r.keys()[0]); return now != 0 && now != pid })
	r.kill()
	must(t, unix.Kill(r.server(r.keys()[0]), unix.SIGKILL))
	r.start()
	eventually(t, "the driver waits for secrets", func() bool { return strings.Contains(r.log.String(), "kubelet will bring the secrets") })
	r.mustPublish(with(model, "path", "gguf"), attrs{"token": tokenA}, "b", "a")
	if got, want := r.digest("a", "model.gguf"), wanted(t, llama()["model"], "gguf/model.gguf"); got != want || r.device("a") != device {
		t.Errorf("digest %s, want %s; device %s, want %s", got, want, r.device("a"), device)
	}
	r.nowhere(tokenA)
	r.mustUnpublish("a", "b")
	r.mustBeClean()
}

// Without a keeper, and after a change of the model, targets are bound to a new mount.
func TestBoundAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustPublish(with(llama(), "path", "gguf"), nil, "a", "b")
	key, device := r.keys()[0], r.device("a")
	must(t, unix.Kill(r.server(key), unix.SIGKILL))
	want := wanted(t, llama()["model"], "gguf/model.gguf")
	for _, pod := range []string{"a", "b"} {
		eventually(t, "the volume can be read again", func() bool {
			got, err := digest(filepath.Join(r.target(pod), "model.gguf"))
			return err == nil && got == want
		})
		if r.device(pod) == device {
			t.Errorf("%s has the mount of the server that was killed", pod)
		}
	}
	// Kubelet may be faster than the driver.
	for range 3 {
		must(t, unix.Kill(r.server(key), unix.SIGKILL))
		r.mustPublish(with(llama(), "path", "gguf"), nil, "a", "b")
		if got := r.digest("b", "model.gguf"); got != want {
			t.Errorf("digest %s, want %s", got, want)
		}
	}
	r.mustUnpublish("a", "b")
	r.mustBeClean()
}

// A new driver keeps running servers, starts missing ones, and ends servers without a volume.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustPublish(llama(), nil, "runs")
	r.mustPublish(with(llama(), "views", "f16"), nil, "dead")
	r.mustPublish(with(llama(), "views", "f32"), nil, "unneeded")
	pids := map[string]int{}
	for _, key := range r.keys() {
		pids[r.device2(key)] = r.server(key)
	}
	runs, dead, unneeded := pids[r.device("runs")], pids[r.device("dead")], pids[r.device("unneeded")]
	r.kill()
	must(t, unix.Kill(dead, unix.SIGKILL))
	must(t, os.Remove(layout(r.dir).record("csi-unneeded", r.target("unneeded"))))
	r.start()
	eventually(t, "the server that is not needed ends", func() bool { return unix.Kill(unneeded, 0) != nil })
	eventually(t, "the server that was killed is started anew", func() bool {
		_, err := os.ReadFile(filepath.Join(r.target("dead"), "README"))
		return err == nil
	})
	r.mustPublish(llama(), nil, "runs")
	for _, key := range r.keys() {
		pids[r.device2(key)] = r.server(key)
	}
	if got := pids[r.device("runs")]; got != runs {
		t.Errorf("the server is process %d; it was %d", got, runs)
	}
	r.mustUnpublish("runs", "dead", "unneeded")
	r.mustBeClean()
	eventually(t, "the server that was found ends", func() bool { return unix.Kill(runs, 0) != nil })
}

// device2 returns the device of a server's mount.
func (r *rig) device2(key string) string {
	m, err := top(filepath.Join(r.dir, "mounts", key))
	must(r.t, err)
	return m.Device
}

// resident returns which pages of a file are in memory.
func resident(t *testing.T, path string) (pages []byte) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(b)
	pages = make([]byte, (len(b)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	return pages
}

// Pods have one copy of the pages, and a server does not grow with their number.
func TestOneCopy(t *testing.T) {
	t.Parallel()
	model := bigModel(t)
	r := newRig(t, "--local="+filepath.Dir(model))
	a := attrs{"model": model, "path": "f32"}
	r.mustPublish(a, nil, "p0")
	r.mustPublish(a, nil, "p1")
	r.digest("p0", "t0.weight")
	one, two := resident(t, filepath.Join(r.target("p0"), "t0.weight")), resident(t, filepath.Join(r.target("p1"), "t0.weight"))
	if n := bytes.Count(one, []byte{1}); n < len(one)/2 || !bytes.Equal(one, two) {
		t.Errorf("%d of %d pages are in memory for the pod that read, %d for the other", n, len(one), bytes.Count(two, []byte{1}))
	}
	pid := r.server(r.keys()[0])
	before := rss(t, pid)
	var pods []string
	for i := range 20 {
		pod := fmt.Sprintf("p%d", i)
		pods = append(pods, pod)
		r.mustPublish(a, nil, pod)
		r.digest(pod, "t0.weight")
	}
	after := rss(t, pid)
	t.Logf("the server has %d KiB with 2 pods, %d KiB with 20", before, after)
	if after > before*3/2+8<<10 {
		t.Error("it grows with the number of pods")
	}
	r.mustUnpublish(pods...)
	r.mustBeClean()
}

// rss is how much memory of its own a process has, in KiB.
func rss(t *testing.T, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if n, err := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 && err == nil {
			return kib
		}
	}
	t.Fatal("no RssAnon")
	return 0
}
