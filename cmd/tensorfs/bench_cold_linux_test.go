package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"golang.org/x/sys/unix"
)

// coldTensors is the number of tensors of the models that are read from a disk.
const coldTensors = 16

// diskModel returns a GGUF file of coldTensors tensors that have so many MiB
// together as they are stored.
func diskModel(t testing.TB, parent string, d tensorfs.DType, mib int64) benchModel {
	dir := cached(t, parent, fmt.Sprintf("disk-%v-%d", d, mib), func(dir string) error {
		row, _ := d.Size([]int64{benchCols})
		shape := []int64{mib << 20 / coldTensors / row, benchCols}
		var data bytes.Buffer // never fails
		patterns[d].fill(&data, shape[0]*row)
		g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}}
		for i := range coldTensors {
			g.Tensors = append(g.Tensors, testmodel.GGUFTensor{
				Name: fmt.Sprintf("blk.%d.attn_output.weight", i), Shape: shape, Type: uint32(d.GGML()), Data: data.Bytes(),
			})
		}
		return writeModel(filepath.Join(dir, "model.gguf"), g.Bytes(), d, 0)
	})
	path := filepath.Join(dir, "model.gguf")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return benchModel{path, path, st.Size()}
}

// BenchmarkCold reads models from a disk, not from the page cache, at two settings of the disk's
// read-ahead in KiB: RA/VIEW/TYPE/HOW. It counts the bytes of the model's file, so a ratio is the
// share of the disk's speed.
func BenchmarkCold(b *testing.B) {
	if os.Geteuid() != 0 {
		fmt.Println("Note: only root can empty the page cache, so cold disks are not measured.")
		return
	}
	dir := benchPlace(b, *benchDir, "")
	bf16, q4k := diskModel(b, dir, tensorfs.BF16, 2**benchSize), diskModel(b, dir, tensorfs.Q4_K, *benchSize)
	whole := wholeModel(b, dir, *benchSize, false)
	rows := benchRows{}
	for _, kib := range []string{"128", "8192"} {
		if err := setReadAhead(b, bf16.file, kib); err != nil {
			fmt.Printf("Note: %v, so cold disks are not measured.\n", err)
			return
		}
		row := func(name, base string, aim float64, measure func(testing.TB) sample) {
			rows.row(b, kib+"/"+name, measure, kib+"/"+base, "of", aim, func(b *testing.B, s sample) {
				b.ReportMetric(1/s.perByte(), "GB/s")
				b.ReportMetric(s.cpuMS()/float64(s.bytes)*1e9, "CPU-ms/GB")
			})
		}
		const catBF16, catQ4K, disk = "cat/BF16", "cat/Q4_K", "disk/BF16"
		ofCat := 0.95
		if kib == "128" { // at which cat gets far less than the disk's speed
			ofCat = 1.5
		}
		row(catBF16, "", 0, func(t testing.TB) sample { emptyCache(t); return readFile(bf16, "read")(t) })
		row(disk, catBF16, 0, func(t testing.TB) sample { emptyCache(t); return readFile(bf16, "disk")(t) })
		row("raw/BF16/read", catBF16, ofCat, fromDisk(bf16, "raw", "read-all"))
		row("gguf/BF16/read", disk, 0.8, fromDisk(whole, "gguf/model.gguf", "read"))
		row("raw/BF16/direct", catBF16, 0.95, fromDisk(bf16, "raw", "read-all-direct"))
		row("f16/BF16/read", catBF16, 0.9, fromDisk(bf16, "f16", "read-all"))
		row("f16/BF16/direct", catBF16, 0.9, fromDisk(bf16, "f16", "read-all-direct"))
		pages := func(name, base string, aim float64, measure func(testing.TB) sample) {
			rows.row(b, kib+"/"+name, measure, kib+"/"+base, "of", aim, func(b *testing.B, s sample) {
				reads := float64(s.bytes) / 4096
				b.ReportMetric(float64(s.wall.Microseconds())/reads, "us-a-page")
				b.ReportMetric(float64(s.disk)/1024/reads, "KiB-read-a-page")
			})
		}
		pages("pages", "", 0, func(t testing.TB) sample {
			forget(t, bf16.file)
			return readFile(bf16, "pages")(t)
		})
		pages("raw/BF16/pages", "pages", 0.65, pagesFromDisk(bf16, "raw"))
		pages("f16/BF16/pages", "pages", 0.65, pagesFromDisk(bf16, "f16"))
		row("raw/BF16/four-readers", "raw/BF16/read", 1, fourFromDisk(bf16, "raw"))
		row(catQ4K, "", 0, func(t testing.TB) sample { emptyCache(t); return readFile(q4k, "read")(t) })
		row("raw/Q4_K/read", catQ4K, 0.95, fromDisk(q4k, "raw", "read-all"))
		row("f16/Q4_K/read", catQ4K, 0, fromDisk(q4k, "f16", "read-all"))
		row("f16/Q4_K/direct", catQ4K, 0, fromDisk(q4k, "f16", "read-all-direct"))
		row("f16/Q4_K/read/model-in-cache", catQ4K, 0, ofSource(q4k, cold(q4k, "f16", "read-all")))
		row("f16/Q4_K/direct/model-in-cache", catQ4K, 0, ofSource(q4k, cold(q4k, "f16", "read-all-direct")))
	}
}

// ofSource counts the bytes of the model's file.
func ofSource(m benchModel, measure func(testing.TB) sample) func(testing.TB) sample {
	return func(t testing.TB) sample {
		s := measure(t)
		s.bytes = m.out
		return s
	}
}

// fromDisk reads all files of a view of a model that is not in the page cache.
func fromDisk(m benchModel, view, how string) func(testing.TB) sample {
	return ofSource(m, func(t testing.TB) sample {
		mnt := newBenchMount(t, m.path)
		defer mnt.unmount()
		touch(t, 4*m.out)
		emptyCache(t)
		return mnt.read(t, how, view)
	})
}

// fourFromDisk is fromDisk with four readers, each of a part of the files.
func fourFromDisk(m benchModel, view string) func(testing.TB) sample {
	return ofSource(m, func(t testing.TB) sample {
		mnt := newBenchMount(t, m.path)
		defer mnt.unmount()
		touch(t, 2*m.out)
		emptyCache(t)
		before := mnt.cpu()
		var readers []*benchReader
		for i := range int64(4) {
			readers = append(readers, startBenchReader(t, "read-quarter", filepath.Join(mnt.dir, view), i))
		}
		var all sample
		for _, r := range readers {
			s := r.wait(t)
			all.wall = max(all.wall, s.wall)
			all.cpu += s.cpu
		}
		all.cpu += mnt.cpu() - before
		return all
	})
}

// pagesFromDisk reads pages here and there of the files of a view.
func pagesFromDisk(m benchModel, view string) func(testing.TB) sample {
	return func(t testing.TB) sample {
		mnt := newBenchMount(t, m.path)
		defer mnt.unmount()
		forget(t, m.file)
		before := testlimit.DiskReads(mnt.cmd.Process.Pid)
		s := mnt.read(t, "pages-all", view)
		s.disk += testlimit.DiskReads(mnt.cmd.Process.Pid) - before
		return s
	}
}

// forget drops what the page cache has of a file, and not the programs that read it.
func forget(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// emptyCache drops what the page cache has of all files.
func emptyCache(t testing.TB) {
	t.Helper()
	unix.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
		t.Skipf("NOT MEASURED: the page cache cannot be emptied here: %v", err)
	}
}

// setReadAhead sets the read-ahead of the disk that has a file, until the end of
// the benchmark.
func setReadAhead(t testing.TB, file, kib string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return err
	}
	path := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	before, err := os.ReadFile(path)
	if err != nil {
		return errors.New("the disk's read-ahead cannot be set")
	}
	t.Cleanup(func() { os.WriteFile(path, []byte(strings.TrimSpace(string(before))), 0) })
	return os.WriteFile(path, []byte(kib), 0)
}
