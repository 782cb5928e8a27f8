package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// TestHold holds that no program can write while a file is held, and that one that wants to does so afterwards.
func TestHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Map(path, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	both := tensorfs.Concat(tensorfs.Bytes("header"), m.Section(0, 100), tensorfs.Section(m.Section(0, 1<<16), 200, 100))
	first, ok := tensorfs.Hold(both, 0, both.Size())
	if !ok {
		t.Skip("NOT TESTED: leases on files of this file system")
	}
	second, ok := tensorfs.Hold(m, 0, 1)
	if !ok {
		t.Fatal("not held by a second reader")
	}
	if f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		f.Close()
		t.Error("opened for writing while held")
	}
	opened := make(chan *os.File)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
		}
		opened <- f
	}()
	lease := func() int {
		kind, err := unix.FcntlInt(uintptr(m.fd), unix.F_GETLEASE, 0)
		if err != nil {
			t.Fatal(err)
		}
		return kind
	}
	for lease() == unix.F_RDLCK {
		time.Sleep(time.Millisecond)
	}
	if _, ok := tensorfs.Hold(m, 0, 1); ok {
		t.Error("held although a program waits")
	}
	first()
	select {
	case <-opened:
		t.Fatal("opened for writing while a reader held it")
	case <-time.After(20 * time.Millisecond):
	}
	second()
	f := <-opened
	if _, ok := tensorfs.Hold(both, 0, both.Size()); ok {
		t.Error("held while a program has it open for writing")
	}
	f.Close()
	if end, ok := tensorfs.Hold(both, 0, both.Size()); !ok {
		t.Error("not held after the program closed it")
	} else {
		end()
	}
	if got := lease(); got != unix.F_UNLCK {
		t.Errorf("lease %d is left", got)
	}
}

// TestHoldNot holds that Data of other kinds is never held.
func TestHoldNot(t *testing.T) {
	text := tensorfs.NewText(1, func(dst []byte, _ int) []byte { return append(dst, "text"...) })
	for _, d := range []tensorfs.Data{text, tensorfs.Concat(tensorfs.Bytes("header"), text)} {
		if _, ok := tensorfs.Hold(d, 0, d.Size()); ok {
			t.Errorf("%T was held", d)
		}
	}
}
