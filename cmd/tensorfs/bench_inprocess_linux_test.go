package main

import (
	"errors"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/metal"
)

// The first row of BenchmarkInProcess, to which its other rows are compared.
const throughMount = "mount"

// BenchmarkInProcess loads f16 of a BF16 model as an engine does: through a mount,
// whose server counts too; with the model opened in its own process; the same when
// what is converted is kept; and from what was kept. Times are from before the tree
// or the model is opened until all bytes are in buffers.
func BenchmarkInProcess(b *testing.B) {
	m := ggufModel(b, benchPlace(b, *benchDir, ""), tensorfs.BF16, *benchSize)
	cacheDir := b.TempDir()
	rows := benchRows{}
	row := func(name string, aim float64, measure func(testing.TB) sample) {
		rows.row(b, name, measure, throughMount, "of", 0, func(b *testing.B, s sample) {
			b.ReportMetric(1/s.perByte(), "GB/s")
			b.ReportMetric(s.cpuMS()/float64(s.bytes)*1e9, "CPU-ms/GB")
			if name == throughMount {
				return
			}
			b.ReportMetric(float64(s.cpu)/float64(rows[throughMount].cpu), "CPU-of-the-mount's")
			if aim > 0 {
				b.ReportMetric(aim, "<=CPU-of-the-mount's")
			}
		})
	}
	row(throughMount, 0, func(t testing.TB) sample {
		mnt := newBenchMount(t, m.path)
		defer mnt.unmount()
		before := mnt.cpu()
		s := loadF16(t, mnt.dir, metal.Options{}, metal.CacheRead)
		s.cpu += mnt.cpu() - before
		return s
	})
	row("in-process", 0.5, func(t testing.TB) sample { return loadF16(t, m.path, metal.Options{}, metal.CacheOff) })
	row("in-process/kept", 0, func(t testing.TB) sample {
		return loadF16(t, m.path, metal.Options{CacheDir: t.TempDir()}, metal.CacheReadWrite)
	})
	loadF16(b, m.path, metal.Options{CacheDir: cacheDir}, metal.CacheReadWrite)
	row("in-process/from-the-cache", 0, func(t testing.TB) sample {
		return loadF16(t, m.path, metal.Options{CacheDir: cacheDir}, metal.CacheRead)
	})
}

// loadF16 loads all of f16/ and measures that.
func loadF16(t testing.TB, model string, o metal.Options, mode metal.CacheMode) (s sample) {
	t.Helper()
	touch(t, *benchSize<<20)
	cpu, start := ownCPU(), time.Now()
	l, err := metal.Open(model, o)
	if err != nil {
		t.Fatal(err)
	}
	var refs []metal.Ref
	for _, name := range l.Names("f16") {
		refs = append(refs, metal.Ref{View: "f16", Name: name})
	}
	set, err := l.Load(t.Context(), refs, metal.LoadOptions{Cache: mode})
	if err != nil {
		t.Fatal(err)
	}
	s.wall, s.cpu = time.Since(start), time.Duration(ownCPU()-cpu)
	for _, ref := range refs {
		b, _ := set.Buffer(ref)
		s.bytes += b.Size
	}
	if err := errors.Join(set.Release(), l.Close()); err != nil {
		t.Fatal(err)
	}
	return s
}
