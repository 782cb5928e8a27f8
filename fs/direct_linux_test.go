package fs

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

var directRounds = flag.Int("direct-rounds", 30, "how often TestDirectBeside opens each file directly in each situation; at most 5 times in the short form")

// TestDirectBeside opens files for direct I/O while other programs, other threads and the same program a moment ago have them open
// in another way. None of that may fail.
func TestDirectBeside(t *testing.T) {
	rounds := *directRounds
	if testing.Short() {
		rounds = min(rounds, 5)
	}
	for _, c := range servings {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, "model", newModel(t, 5<<20+123), c.options...)
			var others []*holder
			for _, how := range []string{"open", "map"} {
				others = append(others, s.hold("f16/f.large", how), s.hold("raw/e.aligned", how))
			}
			for name := range besides {
				t.Run(name, func(t *testing.T) {
					s := *s
					s.t = t
					s.run("beside", s.mountpoint, s.sizeArg(), name, strconv.Itoa(rounds))
				})
			}
			for _, h := range others {
				h.end()
				if err := h.cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
			if log := s.log.String(); log != "" {
				t.Errorf("the server complains:\n%s", log)
			}
			if got := s.ask("unmount"); got != "ok" {
				t.Fatal(got)
			}
			s.ended(t)
		})
	}
}

// TestPassedWithoutDirect holds that the server answers what is in a file system without direct I/O.
func TestPassedWithoutDirect(t *testing.T) {
	f, s, _, _ := passing(t)
	for path, want := range map[string]bool{"/proc/self/status": false, os.Args[0]: true} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, passed := s.stored(wholeFile{tensorfs.Bytes("x"), int(file.Fd())}); passed != want {
			t.Errorf("%s is passed through: %v", path, passed)
		}
	}
	if o, st := openAs(t, f, 1, 0); !isPassed(o) || !st.Ok() {
		t.Errorf("another file afterwards: %+v, %v", o, st)
	}
}

// besides are situations in which a file is opened directly. A round of each ends with the file closed.
var besides = map[string]func(x *besideFile) error{
	"mapped": func(x *besideFile) error {
		f, err := x.open(0)
		if err != nil {
			return err
		}
		m, err := unix.Mmap(int(f.Fd()), 0, int(x.size), unix.PROT_READ, unix.MAP_SHARED)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		err = x.direct()
		if err == nil {
			err = compare(m[:min(x.size, besideRead)], 0, x.want)
		}
		return errors.Join(err, unix.Munmap(m))
	},
	"closed before": func(x *besideFile) error {
		if err := x.header(); err != nil {
			return err
		}
		return x.direct()
	},
	"eight at once": func(x *besideFile) error {
		const ranks = 8
		ended := make(chan error, ranks)
		for range ranks {
			go func() { ended <- errors.Join(x.header(), x.direct()) }()
		}
		var err error
		for range ranks {
			err = errors.Join(err, <-ended)
		}
		return err
	},
	"direct first": func(x *besideFile) error {
		f, err := x.open(unix.O_DIRECT)
		if err != nil {
			return err
		}
		defer f.Close()
		m, err := unix.Mmap(int(f.Fd()), 0, int(x.size), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		defer unix.Munmap(m)
		return errors.Join(x.header(), x.direct(), x.read(f), compare(m[:min(x.size, besideRead)], 0, x.want))
	},
	"switched": func(x *besideFile) error {
		f, err := x.open(0)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, flags := range []int{unix.O_DIRECT, 0, unix.O_DIRECT} {
			if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, flags); err != nil {
				return fmt.Errorf("F_SETFL %#x: %w", flags, err)
			}
			if err := x.read(f); err != nil {
				return fmt.Errorf("after F_SETFL %#x: %w", flags, err)
			}
		}
		return nil
	},
	"opened again": func(x *besideFile) error {
		f, err := x.open(0)
		if err != nil {
			return err
		}
		defer f.Close()
		again := *x
		again.path = fmt.Sprintf("/proc/self/fd/%d", f.Fd()) // no name is looked up
		return again.direct()
	},
}

// besideRead is how much of a file is read each time.
const besideRead = 64 << 10

type besideFile struct {
	path string
	size int64
	want func(p []byte, off int64) error
}

func (x *besideFile) open(flags int) (*os.File, error) {
	return os.OpenFile(x.path, os.O_RDONLY|flags, 0)
}

// header reads the first bytes as most programs do.
func (x *besideFile) header() error {
	f, err := x.open(0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, min(8, x.size))
	if _, err := io.ReadFull(f, b); err != nil {
		return err
	}
	return compare(b, 0, x.want)
}

func (x *besideFile) direct() error {
	f, err := x.open(unix.O_DIRECT)
	if err != nil {
		return err
	}
	defer f.Close()
	return x.read(f)
}

// read reads the beginning and the end, as direct I/O has to: into memory that begins with a page.
func (x *besideFile) read(f *os.File) error {
	for _, off := range []int64{0, max(0, x.size-besideRead) &^ 4095} {
		buf := aligned(besideRead, 0)
		n, err := unix.Pread(int(f.Fd()), buf, off)
		if err != nil || int64(n) != min(besideRead, x.size-off) {
			return fmt.Errorf("%d bytes at %d: %w", n, off, err)
		}
		if err := compare(buf[:n], off, x.want); err != nil {
			return err
		}
	}
	return nil
}

// clientBeside: MOUNTPOINT SIZE SITUATION ROUNDS. It tries all files, and prints how many rounds
// failed.
func clientBeside(args []string) error {
	all, size, err := treeFiles(args[1])
	if err != nil {
		return err
	}
	rounds, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	var failed []string
	for _, tf := range all {
		if tf.size == 0 {
			continue // nothing to map
		}
		x := &besideFile{filepath.Join(args[0], tf.path), tf.size, func(p []byte, off int64) error { return want(p, tf.path, size, off) }}
		n := 0
		var last error
		for range rounds {
			if err := besides[args[2]](x); err != nil {
				n, last = n+1, err
			}
		}
		if n > 0 {
			failed = append(failed, fmt.Sprintf("%s: %d of %d rounds failed: %v", tf.path, n, rounds, last))
		}
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}
