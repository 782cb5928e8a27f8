package metal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// asWriter makes the test binary prepare the tensors of some views of a model: cache
// directory, model, views with commas and the call of progress in which it stays,
// after printing "stuck", with tabs between them.
const asWriter = "TENSORFS_TEST_PREPARE"

// init runs before any test, and before other packages' tests of this binary.
func init() {
	if spec := os.Getenv(asWriter); spec != "" {
		if err := writer(strings.Split(spec, "\t")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func writer(spec []string) error {
	m, err := models.Open(spec[1], models.Options{})
	if err != nil {
		return err
	}
	x := newTree(m, Options{CacheDir: spec[0]})
	defer x.Close()
	t := x
	stuckAt, calls := 0, 0
	if _, err := fmt.Sscan(spec[3], &stuckAt); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	written := int64(0)
	err = t.Prepare(context.Background(), t.refs(strings.Split(spec[2], ",")...), 2, func(done, _ int64) error {
		if calls++; calls == stuckAt {
			fmt.Println("stuck")
			time.Sleep(testlimit.Patience)
		}
		written = done
		return nil
	})
	fmt.Println("written", written)
	return err
}

// process is a writer.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a writer that waits for a line.
func start(t *testing.T, cache, model, views string, stuckAt int) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(exe)}
	p.Env = append(os.Environ(), asWriter+"="+strings.Join([]string{cache, model, views, fmt.Sprint(stuckAt)}, "\t"))
	p.Stderr = os.Stderr
	out, oerr := p.StdoutPipe()
	if p.in, err = p.StdinPipe(); err != nil || oerr != nil {
		t.Fatal(err, oerr)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() }) // it has ended
	p.waitForLine(t, "ready")
	return p
}

// waitForLine waits for a line of the process.
func (p *process) waitForLine(t *testing.T, want string) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		t.Fatalf("%q, %v; not %q", line, err, want)
	}
	return line
}

func (p *process) begin(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

// written is how many bytes a writer that ends well has written.
func (p *process) written(t *testing.T) (n int64) {
	t.Helper()
	if _, err := fmt.Sscanf(p.waitForLine(t, "written "), "written %d\n", &n); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	return n
}

// TestTwoWriters has two processes prepare the same and other tensors at once: each
// is written once, and both have all.
func TestTwoWriters(t *testing.T) {
	for _, views := range [][2]string{{"f16,npy", "f16,npy"}, {"f16,f32", "f32,npy"}} {
		o := options(t)
		a, b := start(t, o.CacheDir, bf16Model, views[0], 0), start(t, o.CacheDir, bf16Model, views[1], 0)
		a.begin(t)
		b.begin(t)
		written := a.written(t) + b.written(t)
		x, want := countingTree(t, bf16Model, o), build(t, bf16Model)
		refs := x.refs(strings.Split(views[0]+","+views[1], ",")...)
		holds(t, x.tree, want, refs)
		seen, bytes := map[Ref]bool{}, int64(0)
		for _, ref := range refs {
			if !seen[ref] {
				bytes += want[ref].Data.Size()
			}
			seen[ref] = true
		}
		// Besides tensors, each writes index.json, config.json and metadata.json.
		const texts = 300 << 10
		if written < bytes || written > bytes+2*texts {
			t.Errorf("%v: %d bytes were written, of %d", views, written, bytes)
		}
		if got := listed(t, x.kept.model.Dir()); len(got) != len(seen) {
			t.Errorf("index.json has %d tensors, not %d", len(got), len(seen))
		}
	}
}

// TestWaits waits for another writer until its context ends, and reads existing entries in the
// meantime.
func TestWaits(t *testing.T) {
	o := options(t)
	other := start(t, o.CacheDir, bf16Model, "f16", 5)
	other.begin(t)
	other.waitForLine(t, "stuck")
	x := countingTree(t, bf16Model, o)
	want := build(t, bf16Model)
	refs := x.refs("f16")
	n := 0
	for _, ref := range refs {
		if cached(t, x.tree, ref) != nil {
			holds(t, x.tree, want, []Ref{ref})
			n++
		}
	}
	if n == 0 || n == len(refs) {
		t.Errorf("%d tensors are there", n)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- x.Prepare(ctx, refs, 0, nil) }()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if list := list(t, o); len(list) != 1 || !list[0].InUse || list[0].Whole {
		t.Errorf("%+v", list)
	}
	go func() { done <- x.Prepare(t.Context(), refs, 0, nil) }()
	if err := errors.Join(other.Process.Kill(), <-done); err != nil {
		t.Error(err)
	}
	holds(t, x.tree, want, refs)
}

// TestKilled goes on with what a killed process left, wherever it was.
func TestKilled(t *testing.T) {
	want := build(t, bf16Model)
	for _, stuckAt := range []int{1, 2, 7, 20} {
		o := options(t)
		p := start(t, o.CacheDir, bf16Model, "f16,npy", stuckAt)
		p.begin(t)
		p.waitForLine(t, "stuck")
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // it was killed
		x := countingTree(t, bf16Model, o)
		refs := x.refs("f16", "npy")
		for _, ref := range refs {
			if cached(t, x.tree, ref) != nil {
				holds(t, x.tree, want, []Ref{ref})
			}
		}
		if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
			t.Fatal(err)
		}
		holds(t, x.tree, want, refs)
		if left, err := filepath.Glob(filepath.Join(x.kept.model.Dir(), ".tensorfs-export/*.partial")); err != nil || len(left) > 0 {
			t.Errorf("%q, %v", left, err)
		}
		x.Close()
	}
}
