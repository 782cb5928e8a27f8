package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// benchRoundTrip and benchRate describe the network between the server and this machine: the rate
// is one connection's.
const (
	benchRoundTrip = 20 * time.Millisecond
	benchRate      = 30_000_000
)

// BenchmarkRemote reads a model on a server whose connections are limited, and one
// whose connections are not: LIMIT/VIEW/HOW. It compares with one connection that
// gets the model's file. open/COMMAND is about a model of 1.2 GB whose header has
// 5.6 MB.
func BenchmarkRemote(b *testing.B) {
	b.Setenv("TENSORFS_OFFLINE", "")
	m := diskModel(b, benchPlace(b, *benchDir, ""), tensorfs.BF16, *benchSize)
	f, err := os.Open(m.file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	s := testweb.New(b)
	s.Put("/model.gguf", io.NewSectionReader(f, 0, m.out))
	rows := benchRows{}
	for _, limit := range []struct {
		name string
		rate int64
		aim  float64
	}{{"30-MB/s-a-connection", benchRate, 2.5}, {"no-limit", 0, 0}} {
		address := testweb.Shape(b, s.URL, benchRoundTrip, limit.rate) + "/model.gguf"
		one := limit.name + "/file/one-connection"
		row := func(name, base string, aim float64, measure func(testing.TB) sample) {
			rows.row(b, name, measure, base, "of", aim, func(b *testing.B, x sample) {
				b.ReportMetric(1/x.perByte(), "GB/s")
				b.ReportMetric(float64(s.Sent())/float64(m.out), "sent/size")
				b.ReportMetric(float64(len(s.Requests())), "requests")
				b.ReportMetric(float64(s.Sent())/1e6, "MB-sent")
			})
		}
		cache := benchPlace(b, "", *benchDir)
		mount := func(t testing.TB, view string) sample {
			s.Reset()
			mnt := newBenchMount(t, address, "--cache", cache)
			defer mnt.unmount()
			x := mnt.read(t, "read-all", view)
			x.bytes = m.out // of the file, whatever they become
			return x
		}
		cold := func(view string) func(testing.TB) sample {
			return func(t testing.TB) sample {
				if err := os.RemoveAll(cache); err != nil {
					t.Fatal(err)
				}
				return mount(t, view)
			}
		}
		row(one, "", 0, func(t testing.TB) sample { s.Reset(); return download(t, address) })
		row(limit.name+"/raw/read", one, limit.aim, cold("raw"))
		row(limit.name+"/f16/read", one, limit.aim, cold("f16"))
		row(limit.name+"/f16/read-again", one, 0, func(t testing.TB) sample { return mount(t, "f16") })
	}
	benchOpen(b, rows)
}

// benchOpenMB is how many MB may be sent to open that model.
const benchOpenMB = 8.4

// benchOpen describes and lists a model on a server, with an empty cache and again.
func benchOpen(b *testing.B, rows benchRows) {
	f := longHeader(b)
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	s := testweb.New(b)
	s.Put("/big.gguf", io.NewSectionReader(f, 0, st.Size()))
	address := testweb.Shape(b, s.URL, benchRoundTrip, 0) + "/big.gguf"
	cache := benchPlace(b, "", *benchDir)
	for _, command := range []string{"info", "ls"} {
		for _, again := range []bool{false, true} {
			name, most := "open/"+command, benchOpenMB
			if again {
				name, most = name+"-again", 0
			}
			rows.row(b, name, func(t testing.TB) sample {
				if !again {
					if err := os.RemoveAll(cache); err != nil {
						t.Fatal(err)
					}
				}
				s.Reset()
				return timed(t, tensorfsCommand(command, "--cache", cache, address))
			}, "", "of", 0, func(b *testing.B, x sample) {
				b.ReportMetric(float64(x.wall.Milliseconds()), "ms")
				b.ReportMetric(float64(s.Sent())/float64(st.Size()), "sent/size")
				b.ReportMetric(float64(len(s.Requests())), "requests")
				b.ReportMetric(float64(s.Sent())/1e6, "MB-sent")
				if most > 0 {
					b.ReportMetric(most, "<=MB-sent")
				}
			})
		}
	}
}

// download gets a file by one connection, with curl if it is installed.
func download(t testing.TB, address string) sample {
	t.Helper()
	if curl, err := exec.LookPath("curl"); err == nil {
		s := timed(t, exec.Command(curl, "-sSf", "-o", os.DevNull, address))
		resp, err := http.Head(address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		s.bytes = resp.ContentLength
		return s
	}
	fmt.Println("Note: there is no curl, so the one connection is this program's.")
	start := time.Now()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return sample{wall: time.Since(start), bytes: n}
}
