package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// BenchmarkMeasure describes and compares tensors. The time is compared with reading f16/ of the
// same tensors to /dev/null, without a mount; GB count the tensors as half. Equal models are
// compared by their stored bytes. A report, which reads all numbers and quantises them twice, is
// compared with verify of the same model, and of a model whose name is its digest.
func BenchmarkMeasure(b *testing.B) {
	dir := benchPlace(b, *benchDir, "")
	bf16, q8 := ggufModel(b, dir, tensorfs.BF16, *benchSize), ggufModel(b, dir, tensorfs.Q8_0, *benchSize)
	rows := benchRows{}
	ratio, aim := "of", 0.0
	row := func(name, base string, commands [][]string, models ...benchModel) {
		rows.row(b, name, func(t testing.TB) (s sample) {
			for _, args := range commands {
				one := timedExit(t, tensorfsCommand(args...), cli.ExitFailed) // 1 of diff means that models differ
				s.wall += one.wall
				s.cpu += one.cpu
			}
			for _, m := range models {
				s.bytes += m.out
			}
			return s
		}, base, ratio, aim, func(b *testing.B, s sample) {
			b.ReportMetric(1/s.perByte(), "GB/s")
			b.ReportMetric(s.cpuMS()/float64(s.bytes)*1e9, "CPU-ms/GB")
		})
	}
	cat := func(m benchModel) []string { return []string{"cat", m.path, "f16/" + benchTensor} }
	row("cat/BF16", "", [][]string{cat(bf16)}, bf16)
	row("stat/BF16", "cat/BF16", [][]string{{"stat", bf16.path, benchTensor + "*"}}, bf16)
	row("stat/BF16/histogram", "cat/BF16", [][]string{{"stat", bf16.path, benchTensor}}, bf16)
	row("cat/BF16-and-Q8_0", "", [][]string{cat(bf16), cat(q8)}, bf16, q8)
	row("diff/BF16-and-Q8_0", "cat/BF16-and-Q8_0", [][]string{{"diff", bf16.path, q8.path}}, bf16, q8)
	row("diff/BF16-and-itself", "cat/BF16-and-Q8_0", [][]string{{"diff", bf16.path, bf16.path}}, bf16, bf16)

	ratio, aim = "x", 1.5
	page := filepath.Join(benchPlace(b, "", ""), "report.html")
	for _, m := range []struct {
		name string
		benchModel
	}{{"BF16", bf16}, {"BF16/digest", byDigest(b, bf16)}, {"Q8_0", q8}} {
		row("verify/"+m.name, "", [][]string{{"verify", m.path}}, m.benchModel)
		row("report/"+m.name, "verify/"+m.name, [][]string{{"report", "--force", "-o", page, m.path}}, m.benchModel)
	}
}

// byDigest is the same model under a name that contains the file's SHA-256, as Ollama stores it.
func byDigest(t testing.TB, m benchModel) benchModel {
	f, err := os.Open(m.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("blobs/sha256-%x", h.Sum(nil))
	dir := cached(t, filepath.Dir(filepath.Dir(m.path)), filepath.Base(filepath.Dir(m.path))+"-digest", func(dir string) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "blobs"), 0o755), os.Link(m.path, filepath.Join(dir, name)))
	})
	m.path = filepath.Join(dir, name)
	return m
}
