package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
)

const (
	manyTensors = 50_000
	// The largest vocabulary in use, with as many tensors as large models have.
	vocabulary   = 262_144
	vocabTensors = 2000
)

// BenchmarkList runs ls on a directory of many files, beside one with the same
// names and sizes in a tmpfs.
func BenchmarkList(b *testing.B) {
	m := smallTensors(b, benchPlace(b, *benchDir, ""), manyTensors, 0)
	tmpfs := tmpfsPlace(b, 64<<20)
	if tmpfs == "" {
		b.SkipNow()
	}
	mnt := newBenchMount(b, m.path)
	same := cached(b, tmpfs, "names", func(dir string) error { return sameFiles(dir, filepath.Join(mnt.dir, "raw")) })
	rows := benchRows{}
	for _, ls := range []struct {
		flag        string
		cold, again float64 // aims
	}{{"-l", 1.3, 1.1}, {"-f", 1.5, 1.5}} {
		list := func(dir string) func(testing.TB) sample {
			return func(t testing.TB) sample { return timed(t, exec.Command("ls", ls.flag, dir)) }
		}
		row := func(name, base string, aim float64, measure func(testing.TB) sample) {
			rows.row(b, name, measure, base, "x", aim, func(b *testing.B, s sample) {
				b.ReportMetric(s.ms(), "ms")
				b.ReportMetric(s.cpuMS(), "CPU-ms-of-ls")
			})
		}
		name := "ls" + ls.flag
		row(name+"/tmpfs", "", 0, list(same))
		row(name+"/mount/cold", name+"/tmpfs", ls.cold, func(t testing.TB) sample {
			mnt := newBenchMount(t, m.path)
			defer mnt.unmount()
			return list(filepath.Join(mnt.dir, "raw"))(t)
		})
		row(name+"/mount/again", name+"/tmpfs", ls.again, func(t testing.TB) sample {
			again := list(filepath.Join(mnt.dir, "raw"))
			again(t)
			return again(t)
		})
	}
}

// sameFiles fills a directory with the names and sizes of another's files, all of
// them holes.
func sameFiles(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(to, e.Name()))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(st.Size()), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkStart measures what happens before the first numbers are there.
func BenchmarkStart(b *testing.B) {
	dir := benchPlace(b, *benchDir, "")
	small, wide, vocab := smallTensors(b, dir, 100, 0), smallTensors(b, dir, manyTensors, 0), smallTensors(b, dir, vocabTensors, vocabulary)
	large := ggufModel(b, dir, tensorfs.Q4_K, min(*benchSize, 256))
	tokenizers := tokenizerModel(b, dir, 152_000)
	rows := benchRows{}
	row := func(name, unit string, aim float64, measure func(testing.TB) sample) {
		rows.row(b, name, measure, "", "", 0, func(b *testing.B, s sample) {
			b.ReportMetric(map[string]float64{"ms": s.ms(), "CPU-ms": s.cpuMS()}[unit], unit)
			if aim > 0 {
				b.ReportMetric(aim, "<="+unit)
			}
		})
	}
	// The command that a user runs, until it returns.
	mount := func(m benchModel) func(testing.TB) sample {
		return func(t testing.TB) sample {
			dir, err := os.MkdirTemp(*benchDir, "tensorfs-mnt-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(dir)
			s := timed(t, tensorfsCommand("mount", m.path, dir))
			timed(t, tensorfsCommand("umount", dir))
			return s
		}
	}
	info := func(m benchModel) func(testing.TB) sample {
		return func(t testing.TB) sample { return timed(t, tensorfsCommand("info", m.path)) }
	}
	row("mount/100-tensors", "ms", 50, mount(small))
	row("mount/50000-tensors", "ms", 150, mount(wide))
	row("mount/2000-tensors/262144-tokens", "ms", 100, mount(vocab))
	for _, view := range []string{"raw", "f16"} {
		row("first-byte/"+view+"/Q4_K", "ms", 1, func(t testing.TB) sample {
			mnt := newBenchMount(t, large.path)
			defer mnt.unmount()
			return mnt.read(t, "first-byte", view+"/"+benchTensor)
		})
	}
	row("first-look-into-gguf/152000-tokens", "CPU-ms", 500, func(t testing.TB) sample {
		mnt := newBenchMount(t, tokenizers.path)
		defer mnt.unmount()
		before := mnt.cpu()
		s := mnt.read(t, "first-byte", "gguf/tensorfs.json")
		s.cpu = mnt.cpu() - before
		return s
	})
	row("info/100-tensors", "CPU-ms", 0, info(small))
	row("info/2000-tensors/262144-tokens", "CPU-ms", 20, info(vocab))
	row("info/50000-tensors", "CPU-ms", 0, info(wide))
}

// BenchmarkMemory watches the server's anonymous memory (RssAnon) while 16 times
// the size of a model goes through it: what it keeps for itself, and not the pages
// of the model, which the kernel counts as shared.
func BenchmarkMemory(b *testing.B) {
	dir, size := benchPlace(b, *benchDir, ""), min(*benchSize, 256)
	bf16, q4k := ggufModel(b, dir, tensorfs.BF16, size), ggufModel(b, dir, tensorfs.Q4_K, size)
	vocab := smallTensors(b, dir, vocabTensors, vocabulary)
	total := size * 16 << 20
	for _, row := range []struct {
		name  string
		model benchModel
		files []string
		total int64
	}{
		{"raw/BF16", bf16, []string{"raw/" + benchTensor}, total},
		{"f16/Q4_K", q4k, []string{"f16/" + benchTensor}, total},
		{"4-views-at-once/Q4_K", q4k, []string{"raw/" + benchTensor, "f16/" + benchTensor, "npy/" + benchTensor + ".npy", "packed/" + benchTensor}, total},
		{"metadata.json/262144-tokens", vocab, []string{"metadata.json"}, total / 8},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				watchMemory(b, row.model, row.files, row.total)
			}
		})
	}
}

// watchMemory reads files of a new mount repeatedly and concurrently, total bytes together, and
// reports the server's memory.
func watchMemory(b *testing.B, m benchModel, files []string, total int64) {
	mnt := newBenchMount(b, m.path)
	defer mnt.unmount()
	anon := func() float64 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", mnt.cmd.Process.Pid))
		found := statusLine.FindSubmatch(status)
		if err != nil || found == nil || string(found[1]) != "RssAnon" {
			b.Errorf("the server's memory: %v, %q", err, status)
			return 0
		}
		kib, _ := strconv.ParseFloat(string(found[2]), 64) // digits
		return kib / 1024
	}
	mounted := anon()
	var most [2]float64 // in the first quarter, later
	for i, part := range []int64{total / 4, total - total/4} {
		done := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				most[i] = max(most[i], anon())
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
		var readers []*benchReader
		for _, f := range files {
			readers = append(readers, startBenchReader(b, "stream", filepath.Join(mnt.dir, f), part/int64(len(files))))
		}
		for _, r := range readers {
			r.wait(b)
		}
		close(done)
		watching.Wait()
	}
	b.ReportMetric(max(most[0], most[1]), "MiB")
	b.ReportMetric(64, "<=MiB")
	b.ReportMetric(most[1]-most[0], "MiB-growth")
	b.ReportMetric(16, "<=MiB-growth")
	b.ReportMetric(mounted, "MiB-mounted")
	b.ReportMetric(anon(), "MiB-at-end")
	b.ReportMetric(float64(total>>20), "MiB-read")
}
