package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// Rows that others are compared with.
const (
	fileRead   = "file/warm/read"
	fileMapped = "file/warm/mapped"
	copyRead   = "cp-to-tmpfs-and-read"
	rawCold    = "raw/BF16/cold/read"
	f16BF16    = "f16/BF16/cold/read"
	f16Q4K     = "f16/Q4_K/cold/read"
)

// BenchmarkRead reads whole tensors: VIEW/TYPE/CACHE/HOW. file is the model's own
// file. cold means that the mount has no page of the file because it was mounted
// just before; the model is in the page cache.
func BenchmarkRead(b *testing.B) {
	dir, part := benchPlace(b, *benchDir, ""), min(*benchSize, 256)
	bf16, q4k := ggufModel(b, dir, tensorfs.BF16, *benchSize), ggufModel(b, dir, tensorfs.Q4_K, *benchSize)
	f32, f16 := ggufModel(b, dir, tensorfs.F32, part), ggufModel(b, dir, tensorfs.F16, part)
	q8, q6k := ggufModel(b, dir, tensorfs.Q8_0, part), ggufModel(b, dir, tensorfs.Q6_K, part)
	mlx, fused := mlxModel(b, dir, part), fusedModel(b, dir, tensorfs.Q8_0, part)
	const qkv = "layers.0.attention.qkv.weight"

	rows := benchRows{}
	row := func(name, base string, aim float64, measure func(testing.TB) sample) {
		rows.row(b, name, measure, base, "of", aim, func(b *testing.B, s sample) {
			b.ReportMetric(1/s.perByte(), "GB/s")
			b.ReportMetric(s.cpuMS()/float64(s.bytes)*1e9, "CPU-ms/GB")
		})
	}
	row(fileRead, "", 0, readFile(bf16, "read"))
	row(fileMapped, fileRead, 0, readFile(bf16, "mapped"))
	if tmpfs := tmpfsPlace(b, bf16.out+16<<20); tmpfs != "" {
		row(copyRead, fileRead, 0, copyAndRead(bf16, tmpfs))
	}
	row(rawCold, copyRead, 1, cold(bf16, "raw/"+benchTensor, "read"))
	row("raw/BF16/cold/mapped", copyRead, 0.5, cold(bf16, "raw/"+benchTensor, "mapped"))
	row("raw/BF16/cold/mapped-huge", copyRead, 0.8, cold(bf16, "raw/"+benchTensor, "mapped-huge"))
	row("raw/BF16/warm/read", fileRead, 0.65, after("read", bf16, "raw/"+benchTensor, "read"))
	row("raw/BF16/warm/mapped", fileMapped, 0.5, after("read", bf16, "raw/"+benchTensor, "mapped"))
	row(f16BF16, rawCold, 0.85, cold(bf16, "f16/"+benchTensor, "read"))
	row(f16Q4K, rawCold, 0.7, cold(q4k, "f16/"+benchTensor, "read"))
	row("f16/Q4_K/cold/mapped-huge", copyRead, 0.8, cold(q4k, "f16/"+benchTensor, "mapped-huge"))
	row("npy/Q4_K/cold/read", f16Q4K, 0.95, cold(q4k, "npy/"+benchTensor+".npy", "read"))
	row("f16/F32/cold/read", f16BF16, 0.7, cold(f32, "f16/"+benchTensor, "read")) // twice the bytes
	row("f16/F16/cold/read", f16BF16, 0.9, cold(f16, "f16/"+benchTensor, "read"))
	row("f16/Q8_0/cold/read", f16BF16, 0.9, cold(q8, "f16/"+benchTensor, "read"))
	row("f16/Q6_K/cold/read", f16BF16, 0.9, cold(q6k, "f16/"+benchTensor, "read"))
	row("f16/MLX-affine-4/cold/read", f16BF16, 0.9, cold(mlx, "f16/"+benchTensor, "read"))
	row("f32/Q4_K/cold/read", f16Q4K, 0.9, cold(q4k, "f32/"+benchTensor, "read"))
	row("bf16/Q4_K/cold/read", f16Q4K, 0.85, cold(q4k, "bf16/"+benchTensor, "read"))
	row("f32/BF16/cold/read", f16BF16, 0.9, cold(bf16, "f32/"+benchTensor, "read"))
	row("bf16/MLX-affine-4/cold/read", f16BF16, 0.9, cold(mlx, "bf16/"+benchTensor, "read"))
	row("fused/Q8_0/cold/read", copyRead, 0.8, cold(fused, "fused/"+qkv, "read"))
	row("fused-f16/Q8_0/cold/read", f16BF16, 0.9, cold(fused, "fused-f16/"+qkv, "read"))
	// What the server answers itself, as for users other than root.
	const answered = "--no-passthrough"
	row("answered/raw/BF16/cold/read", copyRead, 0, cold(bf16, "raw/"+benchTensor, "read", answered))
	row("answered/raw/BF16/warm/read", fileRead, 0, after("read", bf16, "raw/"+benchTensor, "read", answered))
	row("answered/raw/BF16/warm/mapped", fileMapped, 0, after("read", bf16, "raw/"+benchTensor, "mapped", answered))
	row("answered/f16/BF16/cold/read", fileRead, 0, cold(bf16, "f16/"+benchTensor, "read", answered))
}

// readFile reads the model's own file.
func readFile(m benchModel, how string) func(testing.TB) sample {
	return func(t testing.TB) sample { return startBenchReader(t, how, m.file, 0).wait(t) }
}

// copyAndRead is what a cold read is compared with: the bytes are copied into the
// page cache once and out of it once.
func copyAndRead(m benchModel, tmpfs string) func(testing.TB) sample {
	return func(t testing.TB) sample {
		path := filepath.Join(tmpfs, "copy")
		defer os.Remove(path)
		touch(t, m.out)
		cp := timed(t, exec.Command("cp", m.file, path))
		s := startBenchReader(t, "read", path, 0).wait(t)
		return sample{wall: cp.wall + s.wall, cpu: cp.cpu + s.cpu, bytes: s.bytes}
	}
}

// cold reads a file of a new mount.
func cold(m benchModel, file, how string, flags ...string) func(testing.TB) sample {
	return func(t testing.TB) sample {
		mnt := newBenchMount(t, m.path, flags...)
		defer mnt.unmount()
		touch(t, m.out)
		return mnt.read(t, how, file)
	}
}

// after reads a file of a new mount once another reader has read or opened it.
func after(first string, m benchModel, file, how string, flags ...string) func(testing.TB) sample {
	return func(t testing.TB) sample {
		mnt := newBenchMount(t, m.path, flags...)
		defer mnt.unmount()
		touch(t, m.out)
		mnt.read(t, first, file)
		return mnt.read(t, how, file)
	}
}
