package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// benchTables returns the tables that scripts/bench prints for the lines of benchmarks.
func benchTables(t *testing.T, lines string) string {
	t.Helper()
	cmd := exec.Command("awk", "-f", "../../scripts/bench.awk")
	cmd.Stdin = strings.NewReader(lines)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestBenchTables(t *testing.T) {
	const lines = `goos: linux
BenchmarkDecode/Q4_K/go-2 9 5 ns/op 0.5 GB/s 0.04 of:memcpy 0.90 >=of:memcpy 0 B/op
BenchmarkDecode/Q4_K/avx2-2 9 5 ns/op 26.66 GB/s 1.11 of:memcpy 0.90 >=of:memcpy 0 B/op
BenchmarkDecode/F8_E8M0/go-2 9 5 ns/op 5.9 GB/s 0.25 of:memcpy 0 B/op
BenchmarkRead/file/read-2 1 5 ns/op 20 GB/s 48 CPU-ms/GB
BenchmarkRead/raw/read-2 1 5 ns/op 2 GB/s 500 CPU-ms/GB 0.846 of:file/read 0.85 >=of:file/read
Note: so is it.
BenchmarkRead/file/read-2 1 5 ns/op 9 GB/s 52 CPU-ms/GB
BenchmarkRead/raw/read-2 1 5 ns/op 4 GB/s 400 CPU-ms/GB 0.1 of:file/read 0.85 >=of:file/read
Note: so is it.
BenchmarkRead/file/read-2 1 5 ns/op 100 GB/s 50 CPU-ms/GB
BenchmarkRead/raw/read-2 1 5 ns/op 3 GB/s 600 CPU-ms/GB 7 of:file/read 0.85 >=of:file/read
BenchmarkList/ls 1 5 ns/op 353 ms 1.31 x:tmpfs 1.3 <=x:tmpfs
BenchmarkMemory/raw-2 1 5 ns/op 65 MiB 64 <=MiB 1 MiB-growth 16 <=MiB-growth
BenchmarkMemory/f16-2 1 5 ns/op 63 MiB 64 <=MiB 2 MiB-growth 16 <=MiB-growth
PASS
`
	const want = `
#### Decoding

| what | GB/s | GB/s in plain Go | compared | aim | met |
|---|--:|--:|---|---|---|
| Q4_K | 26.7 | 0.50 | 1.11 of memcpy | at least 0.90 | yes |
| F8_E8M0 | 5.90 | 5.90 | 0.25 of memcpy |  |  |

#### Whole tensors

Medians of 3 passes (least to largest).

| what | GB/s | CPU ms/GB | compared | aim | met |
|---|--:|--:|---|---|---|
| file/read | 20.0 (9.00 to 100) | 50.0 |  |  |  |
| raw/read | 3.00 (2.00 to 4.00) | 500 | 0.85 of file/read | at least 0.85 | yes |

#### Listing 50,000 files

| what | ms | compared | aim | met |
|---|--:|---|---|---|
| ls | 353 | 1.31 times tmpfs | at most 1.30 | no |

#### The server's memory (RssAnon)

| what | MiB | MiB growth | aim | met |
|---|--:|--:|---|---|
| raw | 65.0 | 1.00 | at most 64 MiB, at most 16 MiB-growth | no |
| f16 | 63.0 | 2.00 | at most 64 MiB, at most 16 MiB-growth | yes |

Note: so is it.
`
	if got := benchTables(t, lines); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// BenchmarkRead reads all that it names, here of tiny models.
func TestBenchmarkRead(t *testing.T) {
	if testing.Short() {
		t.Skip("not in the short form: it starts 60 servers and readers")
	}
	needFUSE(t)
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkRead$", "-test.benchtime=1x", "-bench-size=1")
	cmd.Env = append(os.Environ(), asProgram+"=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows := 0
	for line := range strings.Lines(string(out)) {
		name, values, ok := strings.Cut(strings.TrimPrefix(line, "BenchmarkRead/"), "\t")
		if !ok || name == line {
			continue
		}
		rows++
		if !strings.Contains(values, " GB/s") || strings.Contains(values, " 0 GB/s") || strings.HasPrefix(name, "f16/") && !strings.Contains(values, " of:") {
			t.Errorf("a row without a speed or a ratio: %s", line)
		}
	}
	if rows < 18 {
		t.Errorf("%d rows:\n%s", rows, out)
	}
}
