//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// Names of rows that others are compared with.
const (
	nativeRead = "the model's file itself: read"
	nativeMap  = "the model's file itself: mapped"
	copyRead   = "cp to an empty tmpfs, then read"
	rawCold    = "raw, cold: read"
	f16BF16    = "f16 of BF16, cold"
	f16Q4K     = "f16 of Q4_K, cold"
)

// sequential reads whole tensors, in every way and view.
func (b *bench) sequential() error {
	bf16, err := b.ggufModel(tensorfs.BF16, b.mib)
	if err != nil {
		return err
	}
	variants := []*variant{
		{name: nativeRead, run: func() (sample, error) { return b.measureRead("read", bf16.file) }},
		{name: nativeMap, base: nativeRead, run: func() (sample, error) { return b.measureRead("mmap", bf16.file) }},
	}
	var notes []string
	base := nativeRead
	if b.shm != "" {
		base = copyRead
		variants = append(variants, b.copyThenRead(bf16))
	} else {
		notes = append(notes, errNoTmpfs.Error()+", so that cold reads are compared with warm reads of the file")
	}
	variants = append(variants,
		b.cold(rawCold, bf16, "read", "raw/"+tensor, base, 1),
		b.cold("raw, cold: mapped", bf16, "mmap", "raw/"+tensor, base, 0.5),
		b.cold("raw, cold: mapped with MADV_HUGEPAGE", bf16, "mmap-huge", "raw/"+tensor, base, 0.8),
		b.warm("raw, warm: read", bf16, "read", "raw/"+tensor, nativeRead, 0.65),
		b.warm("raw, warm: mapped", bf16, "mmap", "raw/"+tensor, nativeMap, 0.5),
		b.cold(f16BF16, bf16, "read", "f16/"+tensor, rawCold, 0.85),
	)
	q4k, err := b.ggufModel(tensorfs.Q4_K, b.mib)
	if err != nil {
		return err
	}
	variants = append(variants,
		b.cold(f16Q4K, q4k, "read", "f16/"+tensor, rawCold, 0.7),
		b.cold("f16 of Q4_K, cold: mapped with MADV_HUGEPAGE", q4k, "mmap-huge", "f16/"+tensor, base, 0.8),
		b.cold("npy of Q4_K, cold", q4k, "read", "npy/"+tensor+".npy", f16Q4K, 0.95),
	)
	part := b.partMiB()
	for _, t := range []struct {
		dtype tensorfs.DType
		aim   float64
	}{{tensorfs.F32, 0.7}, {tensorfs.F16, 0.9}, {tensorfs.Q8_0, 0.9}, {tensorfs.Q6_K, 0.9}} { // F32 is twice the bytes
		m, err := b.ggufModel(t.dtype, part)
		if err != nil {
			return err
		}
		variants = append(variants, b.cold(fmt.Sprintf("f16 of %v, cold", t.dtype), m, "read", "f16/"+tensor, f16BF16, t.aim))
	}
	mlx, err := b.mlxModel(part)
	if err != nil {
		return err
	}
	fused, err := b.fusedModel(tensorfs.Q8_0, part)
	if err != nil {
		return err
	}
	variants = append(variants,
		b.cold("f16 of MLX affine 4 bits, cold", mlx, "read", "f16/"+tensor, f16BF16, 0.9),
		b.cold("fused of Q8_0 (q, k, v), cold", fused, "read", "fused/layers.0.attention.qkv.weight", base, 0.8),
		b.cold("fused-f16 of Q8_0 (q, k, v), cold", fused, "read", "fused-f16/layers.0.attention.qkv.weight", f16BF16, 0.9),
	)
	hot, why, err := b.hot(bf16)
	if err != nil {
		return err
	}
	if why != "" {
		notes = append(notes, why)
	}
	variants = append(variants, hot...)
	if err := b.round(variants, b.passes); err != nil {
		return err
	}
	b.speeds(variants, notes)
	return nil
}

// copyThenRead is what a cold read is compared with: the bytes are copied into
// the page cache once and out of it once.
func (b *bench) copyThenRead(m *model) *variant {
	path := filepath.Join(b.shm, "copy")
	return &variant{
		name: copyRead, base: nativeRead, memory: b.mib << 20,
		prepare: func() error { return os.RemoveAll(path) },
		run: func() (sample, error) {
			wall, cpu, err := b.runs("cp", m.file, path)
			if err != nil {
				return sample{}, err
			}
			s, err := b.measureRead("read", path)
			return s.plus(sample{wall: wall, cpu: cpu}), err
		},
	}
}

// cold reads a file of which the mount has no pages. It is mounted for every
// pass.
func (b *bench) cold(name string, m *model, role, file, base string, aim float64) *variant {
	var s *server
	return &variant{
		name: name, base: base, aim: aim, memory: m.out,
		prepare: func() (err error) { s, err = b.mount(m); return err },
		run: func() (sample, error) {
			x, err := b.reads(s, role, file)
			if err != nil {
				return x, err
			}
			return x, b.unmount(s)
		},
	}
}

// warm reads a file whose pages the mount has: the pass that does not count
// reads them.
func (b *bench) warm(name string, m *model, role, file, base string, aim float64) *variant {
	var s *server
	return &variant{
		name: name, base: base, aim: aim,
		prepare: func() (err error) {
			if s == nil {
				s, err = b.mount(m)
			}
			return err
		},
		run: func() (sample, error) { return b.reads(s, role, file) },
	}
}

// hot returns what can be measured of hot files, or why nothing can.
func (b *bench) hot(m *model) (variants []*variant, why string, err error) {
	const file = "f16/" + tensor
	if os.Geteuid() != 0 {
		return nil, "`--hot` takes root, so its rows are left out", nil
	}
	help, err := b.command(b.tensorfs, "mount", "--help").Output()
	if err != nil {
		return nil, "", err
	}
	if !strings.Contains(string(help), "--hot") {
		return nil, "this tensorfs has no `--hot`, so its rows are left out", nil
	}
	flag := fmt.Sprintf("--hot=%dM", b.mib+2)
	warm, err := b.mount(m, flag)
	if err != nil {
		return nil, "", err
	}
	f, err := os.Open(warm.path(file)) // fills it
	if err != nil {
		return nil, "", err
	}
	f.Close()
	var status [1 << 16]byte
	n, err := unix.Getxattr(warm.dir, "user.tensorfs.hot", status[:])
	if err != nil || !strings.Contains(string(status[:n]), file) {
		return nil, "the kernel passes no files through, so the rows of `--hot` are left out", b.unmount(warm)
	}
	var first *server
	return []*variant{
		{
			name: "`--hot`, f16 of BF16: first open and read", base: nativeRead, memory: m.out,
			prepare: func() (err error) { first, err = b.mount(m, flag); return err },
			run: func() (sample, error) {
				x, err := b.reads(first, "read", file)
				if err != nil {
					return x, err
				}
				return x, b.unmount(first)
			},
		},
		{name: "`--hot`, f16 of BF16, open before: read", base: nativeRead, aim: 0.95, run: func() (sample, error) { return b.reads(warm, "read", file) }},
		{name: "`--hot`, f16 of BF16, open before: mapped", base: nativeMap, aim: 0.95, run: func() (sample, error) { return b.reads(warm, "mmap", file) }},
	}, "", nil
}

// speeds prints the table.
func (b *bench) speeds(variants []*variant, notes []string) {
	b.heading("Whole tensors", variants)
	rows := [][]string{{"what", "bytes read", "GB/s", "CPU ms/GB, reader and server", "ratio", "to", "aim", "met"}}
	for _, v := range variants {
		row := []string{
			v.name, mib(v.samples[0].bytes), spread("%.2f", v.series(sample.speed)),
			fmt.Sprintf("%.0f", median(v.series(func(s sample) float64 { return ms(s.cpu) / (float64(s.bytes) / 1e9) }))),
			"", "", "", "",
		}
		if base := find(variants, v.base); base != nil {
			r := median(ratios(v.series(sample.speed), base.series(sample.speed)))
			row[4], row[5] = fmt.Sprintf("%.2f", r), base.name
			if v.aim > 0 {
				row[6], row[7] = fmt.Sprintf("%.2f", v.aim), verdict(r >= v.aim-0.005)
			}
		}
		rows = append(rows, row)
	}
	b.table(rows)
	for _, n := range notes {
		fmt.Fprintf(b.out, "\nNote: %s.\n", n)
	}
}
