package memory

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// golden is testdata/memory.
const golden = "../../testdata/memory"

// tsv returns the rows of a table, by the names in its first line.
func tsv(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, name))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if names == nil {
			names = f
			continue
		}
		row := map[string]string{}
		for i := range min(len(f), len(names)) {
			row[names[i]] = f[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// optionsOf reads the options of a row.
func optionsOf(t *testing.T, text string) (o Options) {
	t.Helper()
	types := map[string]tensorfs.DType{"q8_0": tensorfs.Q8_0, "q4_0": tensorfs.Q4_0, "f16": tensorfs.F16}
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "ctx":
			o.Context = number(t, value)
		case "seq":
			o.Parallel = number(t, value)
		case "unified":
			o.Unified = value == "1"
		case "b":
			o.Batch = number(t, value)
		case "ub":
			o.UBatch = number(t, value)
		case "ctk":
			o.TypeK = types[value]
		case "ctv":
			o.TypeV = types[value]
		case "fa":
			o.NoFlash = value == "off"
		case "swa_full":
			o.SWAFull = value == "1"
		case "outs":
			o.OutputsAll = value == "2048"
		default:
			t.Fatalf("what is %s?", f)
		}
	}
	return o
}

// sparse is a header before zeros.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) Size() int64 { return s.size }

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.size {
		return 0, io.EOF
	}
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	if rest := s.size - off; int64(len(p)) > rest {
		return int(rest), io.EOF
	}
	return len(p), nil
}

func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return b
}

// headerOf is what commands make of a file.
func headerOf(f *gguf.File) *Header {
	h := &Header{Architecture: f.Architecture(), Value: f.Value}
	for i, x := range f.Tensors {
		h.Tensors = append(h.Tensors, Tensor{x.Source, x.DType, x.Shape, f.Offsets[i], x.Data.Size()})
	}
	return h
}

// headers opens the headers of testdata/memory, by the names of the models.
func headers(t *testing.T) map[string]*Header {
	all := map[string]*Header{}
	for _, row := range tsv(t, "models.tsv") {
		head := unzipped(t, filepath.Join(golden, "headers", row["model"]+".gguf.gz"))
		f, err := gguf.Parse(sparse{head, number(t, row["file_bytes"])})
		if err != nil {
			t.Fatal(err)
		}
		all[row["model"]] = headerOf(f)
	}
	return all
}

// TestGolden: what llama.cpp itself counted for the shapes of real models.
func TestGolden(t *testing.T) {
	all := headers(t)
	rows := tsv(t, "memory.tsv")
	exact, within, said := 0, 0, 0
	for _, row := range rows {
		name := row["model"] + " " + row["options"]
		n, err := Of(all[row["model"]], optionsOf(t, row["options"]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, x := range []struct {
			what string
			got  int64
			want string
		}{
			{"n_ctx", n.Context.Tokens, row["n_ctx"]},
			{"weights", n.Weights, row["weights"]},
			{"weights that are not repacked", n.Resident, row["cpu_model"]},
			{"repacked", n.Repacked, row["cpu_repack"]},
			{"cache and state", n.KV.K + n.KV.V + n.State.R + n.State.S, row["context"]},
		} {
			if want := number(t, x.want); x.got != want {
				t.Errorf("%s: %s is %d, want %d", name, x.what, x.got, want)
			}
		}
		if got := fmt.Sprintf("%.2f MiB", float64(n.Output)/(1<<20)); got != row["output"] {
			t.Errorf("%s: output is %s, want %s", name, got, row["output"])
		}
		compute := number(t, row["compute"])
		off := float64(n.Compute)/float64(compute) - 1
		counted := number(t, row["cpu_model"]) + number(t, row["cpu_repack"]) + number(t, row["context"]) + compute
		switch {
		case n.ComputeExact && n.Compute != compute:
			t.Errorf("%s: compute is said to be exactly %d, want %d (%+.2f %%)", name, n.Compute, compute, 100*off)
		case n.Compute != compute:
			t.Logf("%s: compute %+.2f %%", name, 100*off)
		}
		if math.Abs(float64(n.Compute-compute)) > 0.01*float64(counted) {
			t.Errorf("%s: compute of %d is off by more than 1 %% of the total", name, n.Compute)
		}
		if n.Compute == compute {
			exact++
		}
		if math.Abs(off) <= 0.03 {
			within++
		}
		if n.ComputeExact {
			said++
		}
		if want := counted + n.Output; n.Total != want {
			t.Errorf("%s: total is %d, want %d", name, n.Total, want)
		}
	}
	t.Logf("compute is exact in %d of %d rows, said to be in %d, within 3 %% in %d", exact, len(rows), said, within)
	if len(rows) != 138 || said != len(rows) {
		t.Errorf("compute is said to be exact in %d of %d rows, want all of 138", said, len(rows))
	}
}

// TestTiny: cache and states of many architectures, by the GGUF files made from their models.
func TestTiny(t *testing.T) {
	made, said := map[string]*Header{}, 0
	rows := tsv(t, "tiny.tsv")
	if len(rows) != 167 {
		t.Errorf("%d rows, want 167", len(rows))
	}
	for _, row := range rows {
		name := row["model"]
		h := made[name]
		if h == nil {
			m := testwhole.Open(t, filepath.Join(testwhole.Data(t), "architectures", name))
			files := convert.GGUF(m, convert.Options{})
			if files.Reason != "" {
				t.Errorf("%s: %s", name, files.Reason)
				continue
			}
			f, err := gguf.Parse(files.List[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			h = headerOf(f)
			made[name] = h
		}
		n, err := Of(h, optionsOf(t, row["options"]))
		if err != nil {
			t.Errorf("%s %s: %v", name, row["options"], err)
			continue
		}
		if h.Architecture != row["architecture"] || !n.Known {
			t.Errorf("%s is of %s, known: %t", name, h.Architecture, n.Known)
		}
		if got, want := n.KV.K+n.KV.V+n.State.R+n.State.S, number(t, row["context"]); got != want {
			t.Errorf("%s %s: cache and states are %d, want %d", name, row["options"], got, want)
		}
		if n.ComputeExact {
			said++
		}
		if compute := number(t, row["compute"]); n.ComputeExact && n.Compute != compute {
			t.Errorf("%s %s: compute is said to be exactly %d, want %d", name, row["options"], n.Compute, compute)
		}
	}
	t.Logf("compute is said to be exact in %d of %d rows", said, len(rows))
}
