package tensorfs_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
)

func TestText(t *testing.T) {
	for _, pieces := range [][]string{
		nil, {""}, {"a"}, {"one piece"}, {"ab", "", "cde", "", ""}, {"", "", "x"}, {"1", "2", "3", "4"}, {"long " + strings.Repeat("text ", 20), "\n"},
	} {
		t.Run(fmt.Sprintf("%q", pieces), func(t *testing.T) {
			d := tensorfs.NewText(len(pieces), func(dst []byte, i int) []byte { return append(dst, pieces[i]...) })
			datatest.Check(t, d, []byte(strings.Join(pieces, "")))
		})
	}
}

// TestTextRenders counts how often text is rendered.
func TestTextRenders(t *testing.T) {
	count := make([]int, 5)
	d := tensorfs.NewText(5, func(dst []byte, i int) []byte { count[i]++; return fmt.Appendf(dst, "piece %d\n", i) })
	d.Size()
	if d.Size() != 40 || fmt.Sprint(count) != "[1 1 1 1 1]" {
		t.Fatalf("size %d after rendering %v", d.Size(), count)
	}
	for range 3 {
		if _, err := d.ReadAt(make([]byte, 3), 17); err != nil {
			t.Fatal(err)
		}
	}
	if count[0] != 1 || count[1] != 1 || count[2] < 2 || count[3] != 1 {
		t.Errorf("rendered %v for a read of piece 2", count)
	}
	runtime.GC() // takes the piece that was kept
	p := make([]byte, 40)
	if n, err := d.ReadAt(p, 0); n != 40 || err != nil && err != io.EOF || !strings.HasPrefix(string(p), "piece 0\npiece 1\n") {
		t.Errorf("%q, %v", p[:n], err)
	}
}

// TestTextAllocates holds that pieces which are read as a whole are rendered to their
// place.
func TestTextAllocates(t *testing.T) {
	piece := strings.Repeat("x", 10000)
	d := tensorfs.NewText(100, func(dst []byte, _ int) []byte { return append(dst, piece...) })
	p := make([]byte, d.Size())
	if n := testing.AllocsPerRun(10, func() {
		if _, err := d.ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a read of 100 pieces allocates %v times", n)
	}
}

// TestTextChanged holds that a model that changes under a text is not a reason to
// mix two states of it.
func TestTextChanged(t *testing.T) {
	text := "before"
	d := tensorfs.NewText(2, func(dst []byte, i int) []byte { return append(dst, text...) })
	if d.Size() != 12 {
		t.Fatal(d.Size())
	}
	text = "after"
	if n, err := d.ReadAt(make([]byte, 12), 0); n != 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d, %v", n, err)
	}
}

func TestTextConcurrently(t *testing.T) {
	d := tensorfs.NewText(20, func(dst []byte, i int) []byte { return fmt.Appendf(dst, "%04d", i) })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			p := make([]byte, 4)
			for i := range 200 {
				at := (i*7 + g) % 20
				if _, err := d.ReadAt(p, int64(4*at)); err != nil || string(p) != fmt.Sprintf("%04d", at) {
					t.Errorf("%d: %q, %v", at, p, err)
					return
				}
				if i%50 == 0 {
					runtime.GC()
				}
			}
		})
	}
	wg.Wait()
}
