package main

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs/nfs"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// BenchmarkNFS reads whole tensors through an NFS server and our own client, 1 MiB at a time, and
// the same tensors through a new FUSE mount. The client has no page cache: it drops what it reads.
// Client and server are one process here, and the time is the time of both.
func BenchmarkNFS(b *testing.B) {
	dir := benchPlace(b, *benchDir, "")
	m := ggufModel(b, dir, tensorfs.BF16, *benchSize)
	rows := benchRows{}
	row := func(name, base string, measure func(testing.TB) sample) {
		rows.row(b, name, measure, base, "of", 0, func(b *testing.B, s sample) {
			b.ReportMetric(1/s.perByte(), "GB/s")
			b.ReportMetric(s.cpuMS()/float64(s.bytes)*1e9, "CPU-ms/GB")
		})
	}
	for _, view := range []string{"f16", "raw"} {
		file := view + "/" + benchTensor
		row(view+"/BF16/fuse", "", cold(m, file, "read"))
		row(view+"/BF16/nfs", view+"/BF16/fuse", overNFS(m, file))
	}
}

// overNFS reads a file of a new NFS server, with as many requests under way as a kernel's
// read-ahead has.
func overNFS(m benchModel, file string) func(testing.TB) sample {
	const step, readers = 1 << 20, 8
	return func(t testing.TB) sample {
		tree, err := (&modelFlags{}).open(m.path)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Model.Close()
		server, err := nfs.New(tree.Root, nfs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		serving := make(chan error, 1)
		go func() { serving <- server.Serve(l) }()
		defer func() {
			server.Close()
			if err := <-serving; err != nil {
				t.Error(err)
			}
		}()
		c, err := testnfs.Dial(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		root, err := c.Mount("/" + server.Token())
		if err != nil {
			t.Fatal(err)
		}
		h, a, err := c.Find(root, file)
		if err != nil {
			t.Fatal(err)
		}
		touch(t, step*readers)
		cpu, start := ownCPU(), time.Now()
		var next atomic.Int64
		ended := make(chan error, readers)
		for range readers {
			go func() {
				buf := make([]byte, step)
				for {
					off := next.Add(step) - step
					if off >= int64(a.Size) {
						ended <- nil
						return
					}
					if n, eof, err := c.Read(h, buf, off); err != nil || n < step && !eof {
						ended <- fmt.Errorf("%d bytes at %d: %w", n, off, err)
						return
					}
				}
			}()
		}
		for range readers {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		return sample{wall: time.Since(start), cpu: time.Duration(ownCPU() - cpu), bytes: int64(a.Size)}
	}
}
