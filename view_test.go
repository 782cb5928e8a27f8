package tensorfs

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

func TestView(t *testing.T) {
	text := []byte("0123456789")
	var buf []byte
	for off := range int64(11) {
		for n := range 11 - off {
			for _, d := range []Data{bytes.NewReader(text), Bytes(text), Section(Section(bytes.NewReader(append([]byte("ab"), text...)), 1, 11), 1, 10)} {
				b, memory, err := View(d, off, n, &buf)
				if err != nil || memory != nil || string(b) != string(text[off:off+n]) {
					t.Errorf("%T %d+%d: %q, %v, %v", d, off, n, b, memory, err)
				}
			}
		}
	}
	for _, r := range [][2]int64{{5, 6}, {11, 0}, {-1, 1}, {0, -1}, {1, 1<<63 - 1}} {
		for _, d := range []Data{bytes.NewReader(text), Bytes(text), Section(strings.NewReader("more than that"), 1, 10)} {
			if _, _, err := View(d, r[0], r[1], &buf); err == nil {
				t.Errorf("a view of %T beyond its end: %v", d, r)
			}
		}
	}
	broken := errors.New("broken")
	if _, _, err := View(scripted{3, broken}, 0, 8, &buf); err != broken {
		t.Error(err)
	}
}

// page is memory without access, so that reading it is a fault.
type page struct {
	mem     []byte
	checked int
	changed error
}

func newPage(t *testing.T) *page {
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return &page{mem: mem}
}

func (p *page) Check() error { p.checked++; return p.changed }

func (p *page) Lost(addr uintptr) error {
	if at := addr - uintptr(unsafe.Pointer(unsafe.SliceData(p.mem))); at >= uintptr(len(p.mem)) {
		return nil
	}
	return fmt.Errorf("page %p is lost", p)
}

// TestGuardLost holds that a lost page of any input is an error of that input.
func TestGuardLost(t *testing.T) {
	pages := []Memory{newPage(t), nil, newPage(t), newPage(t)}
	for _, i := range []int{0, 2, 3} {
		lost := pages[i].(*page)
		err := Guard(func() error { t.Errorf("read %d", lost.mem[100]); return nil }, pages...)
		if want := fmt.Sprintf("page %p is lost", lost); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults still panic after the guard")
	}
}

// TestGuardOtherPanics holds that only faults on the inputs are taken: bugs and
// faults elsewhere stay panics.
func TestGuardOtherPanics(t *testing.T) {
	a, b := newPage(t), newPage(t)
	for name, fn := range map[string]func() error{
		"a bug":             func() error { panic("bug") },
		"a nil pointer":     func() error { var p *page; return p.changed },
		"a fault elsewhere": func() error { return errors.New(string(b.mem)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was swallowed", name)
				}
			}()
			err := Guard(fn, a, nil)
			t.Errorf("%s: %v", name, err)
		}()
	}
}

func TestGuardChecks(t *testing.T) {
	a, b := newPage(t), newPage(t)
	if err := Guard(func() error { return nil }, a, b, nil, a, b, a); err != nil || a.checked != 1 || b.checked != 1 {
		t.Errorf("%v after %d and %d checks, want one of each file", err, a.checked, b.checked)
	}
	b.changed = ErrChanged
	if err := Guard(func() error { return nil }, a, b); err != ErrChanged {
		t.Errorf("%v, want that of a file that changed", err)
	}
	broken := errors.New("broken")
	if err := Guard(func() error { return broken }, a, b); err != broken {
		t.Errorf("%v, want that of the reader", err)
	}
	if err := Guard(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
