package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// soaked is what a reader did.
type soaked struct {
	Operations int64            `json:"operations"`
	Bytes      int64            `json:"bytes"`  // compared
	Errors     map[string]int64 `json:"errors"` // that are right while a mount is torn down
	Wrong      string           `json:"wrong"`  // the first wrong answer; "" for none
}

// forgiven are the answers of a mount whose server is killed, whose model
// changes, or that is gone at the moment.
var forgiven = []error{syscall.ENOTCONN, syscall.ECONNABORTED, syscall.EIO, syscall.ENOENT, syscall.ENODEV, errFault}

// errFault is a page of a mapping that cannot be had.
var errFault = errors.New("SIGBUS")

// soakMain is the process that asSoaker starts. model is an untouched copy.
func soakMain(spec string) int {
	args := strings.Split(spec, "\n")
	seed, _ := strconv.ParseUint(args[2], 10, 64)
	done := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	s := &soaked{Errors: map[string]int64{}}
	if err := s.run(args[0], args[1], seed, args[3] == "true", done); err != nil {
		s.Wrong = err.Error()
	}
	b, _ := json.Marshal(s)
	fmt.Printf("%s\n", b)
	return 0
}

func (s *soaked) run(dir, model string, seed uint64, forgiving bool, done <-chan struct{}) error {
	debug.SetPanicOnFault(true)
	debug.SetGCPercent(25) // the memory of the control group is for pages
	t, err := (&modelFlags{}).open(model)
	if err != nil {
		return err
	}
	files, err := exercisedFiles(t.Root, dir, func(path string) bool {
		if forgiving && path == "gguf/model.gguf" {
			return false // root's is read past the server, so it changes with the model: see TestStoredFile
		}
		return !namesModel(path) // this one is a copy
	})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for {
		select {
		case <-done:
			return nil
		default:
		}
		x := files[rng.IntN(len(files))]
		n, err := soakOnce(x, rng)
		s.Operations++
		s.Bytes += n
		// A server that was detached goes on while a file of it is open: without this
		// there would be more and more of them.
		if x.f != nil && (err != nil || forgiving && rng.IntN(64) == 0) {
			x.f.Close()
			x.f = nil
		}
		if err == nil {
			continue
		}
		known := ""
		for _, e := range forgiven {
			if errors.Is(err, e) {
				known = e.Error()
			}
		}
		if !forgiving || known == "" {
			return fmt.Errorf("seed %d, operation %d: %s: %w", seed, s.Operations, x.path, err)
		}
		s.Errors[known]++
		time.Sleep(time.Millisecond)
	}
}

// soakOnce reads a part of a file in one of the ways of the exerciser, or all of
// it, and returns how many bytes were compared.
func soakOnce(x *exercised, rng *rand.Rand) (n int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(interface{ Addr() uintptr }); !ok {
				panic(r)
			}
			err = errFault
		}
	}()
	if x.f == nil {
		if x.f, err = os.Open(x.path); err != nil {
			return 0, err
		}
	}
	if rng.IntN(20) == 0 {
		got, err := os.ReadFile(x.path)
		if err == nil && !bytes.Equal(got, x.want) {
			err = fmt.Errorf("all of it: other bytes than without the mount")
		}
		return int64(len(got)), err
	}
	how := readers[rng.IntN(len(readers))]
	off := rng.Int64N(int64(len(x.want)))
	size := min(1+rng.Int64N(1<<uint(rng.IntN(21))), int64(len(x.want))-off)
	got, err := how.read(x, off, size, rng)
	if err != nil {
		return 0, fmt.Errorf("%s, %d bytes at %d: %w", how.name, size, off, err)
	}
	if got != nil && !bytes.Equal(got, x.want[off:off+int64(len(got))]) {
		return 0, fmt.Errorf("%s, %d bytes at %d: other bytes than without the mount", how.name, size, off)
	}
	return int64(len(got)), nil
}
