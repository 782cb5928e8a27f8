package main

import (
	"testing"

	"github.com/tensorfs/tensorfs"
)

// BenchmarkMeasure describes and compares tensors, which is compared with reading
// f16/ of the same ones to /dev/null, without a mount. GB are those of the tensors as
// half. Equal models are compared by their stored bytes.
func BenchmarkMeasure(b *testing.B) {
	dir := benchPlace(b, *benchDir, "")
	bf16, q8 := ggufModel(b, dir, tensorfs.BF16, *benchSize), ggufModel(b, dir, tensorfs.Q8_0, *benchSize)
	rows := benchRows{}
	row := func(name, base string, commands [][]string, models ...benchModel) {
		rows.row(b, name, func(t testing.TB) (s sample) {
			for _, args := range commands {
				one := timedExit(t, tensorfsCommand(args...), exitFailed) // 1 of diff means that models differ
				s.wall += one.wall
				s.cpu += one.cpu
			}
			for _, m := range models {
				s.bytes += m.out
			}
			return s
		}, base, "of", 0, func(b *testing.B, s sample) {
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
}
