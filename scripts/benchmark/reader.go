//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readSize is what cat reads at a time.
const readSize = 128 << 10

// readers are the roles that read a file. Each returns the bytes that it read.
var readers = map[string]func(f *os.File, args []string) (int64, error){
	"read":      func(f *os.File, _ []string) (int64, error) { return readAll(f) },
	"mmap":      func(f *os.File, _ []string) (int64, error) { return readMapped(f, 0) },
	"mmap-huge": func(f *os.File, _ []string) (int64, error) { return readMapped(f, unix.MADV_HUGEPAGE) },
	"first":     func(f *os.File, _ []string) (int64, error) { n, err := f.Read(make([]byte, 1)); return int64(n), err },
	"stream":    stream,
	"touch":     touch,
}

// read is the main of a reading process: it reads a file in the way of its role
// and prints nanoseconds from before open to the last byte, bytes, and
// nanoseconds of CPU.
func read(role string, args []string) error {
	how := readers[role]
	if how == nil || len(args) == 0 {
		return fmt.Errorf("no role %q", role)
	}
	cpu := ownCPU()
	start := time.Now()
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := how(f, args[1:])
	if err != nil {
		return err
	}
	_, err = fmt.Println(time.Since(start).Nanoseconds(), n, (ownCPU() - cpu).Nanoseconds())
	return err
}

func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readAll reads like cat: to the end, into one buffer.
func readAll(f *os.File) (int64, error) {
	buf := make([]byte, readSize)
	for total := int64(0); ; {
		n, err := unix.Read(int(f.Fd()), buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return total, fmt.Errorf("%s at %d: %w", f.Name(), total, err)
		case n == 0:
			return total, nil
		}
		total += int64(max(n, 0))
	}
}

// readMapped copies every byte out of a mapping.
func readMapped(f *os.File, advice int) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	if advice != 0 {
		if err := unix.Madvise(m, advice); err != nil {
			return 0, fmt.Errorf("madvise: %w", err)
		}
	}
	buf := make([]byte, readSize)
	for rest := m; len(rest) > 0; {
		rest = rest[copy(buf, rest):]
	}
	return st.Size(), nil // the mapping ends with the process
}

// stream reads a file again and again, each time through the server, until it
// has read the bytes of its argument.
func stream(f *os.File, args []string) (int64, error) {
	want, err := strconv.ParseInt(strings.Join(args, ""), 10, 64)
	if err != nil {
		return 0, err
	}
	for total := int64(0); ; {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return total, fmt.Errorf("fadvise: %w", err)
		}
		if _, err := f.Seek(0, 0); err != nil {
			return total, err
		}
		n, err := readAll(f)
		if total += n; err != nil || total >= want {
			return total, err
		}
		if n == 0 {
			return 0, errors.New("an empty file")
		}
	}
}

// touch makes the kernel give it as much memory as its argument says, in huge
// pages where it can, and gives it back.
func touch(_ *os.File, args []string) (int64, error) {
	want, err := strconv.ParseInt(strings.Join(args, ""), 10, 64)
	if err != nil {
		return 0, err
	}
	m, err := unix.Mmap(-1, 0, int(want), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)               // else it takes longer
	if unix.Madvise(m, unix.MADV_POPULATE_WRITE) != nil { // before Linux 5.14
		for i := 0; i < len(m); i += 4096 {
			m[i] = 1
		}
	}
	return want, nil
}

// reading is a reader at work.
type reading struct {
	cmd *exec.Cmd
	out strings.Builder
}

// startRead starts a reader.
func (b *bench) startRead(role, path string, args ...string) (*reading, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &reading{cmd: b.command(self, append([]string{path}, args...)...)}
	r.cmd.Env = append(r.cmd.Env, roleEnv+"="+role)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, os.Stderr
	return r, r.cmd.Start()
}

// wait returns what a reader took, without the CPU time of a server.
func (r *reading) wait() (sample, error) {
	var ns, cpu, n int64
	if err := r.cmd.Wait(); err != nil {
		return sample{}, fmt.Errorf("reading %s: %w", r.cmd.Args[1], err)
	}
	if _, err := fmt.Sscan(r.out.String(), &ns, &n, &cpu); err != nil {
		return sample{}, fmt.Errorf("a reader says %q: %w", r.out.String(), err)
	}
	return sample{wall: time.Duration(ns), bytes: n, cpu: time.Duration(cpu)}, nil
}

// measureRead runs a reader to its end.
func (b *bench) measureRead(role, path string, args ...string) (sample, error) {
	r, err := b.startRead(role, path, args...)
	if err != nil {
		return sample{}, err
	}
	return r.wait()
}
