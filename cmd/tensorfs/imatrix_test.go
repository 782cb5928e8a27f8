package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// olderMatrix is an importance matrix in the older form, of one tensor.
func olderMatrix(name string, values ...float32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(values)))
	b, _ = binary.Append(b, binary.LittleEndian, values)
	return b
}

// TestWrongImatrix: an importance matrix of another size, or with values that are no numbers, is refused in one line
// by every command, before anything is made.
func TestWrongImatrix(t *testing.T) {
	const model, tensor = testdata + "quantise/models/dense256.gguf", "blk.0.attn_q.weight"
	dir := t.TempDir()
	whole, err := os.ReadFile(testdata + "quantise/imatrix/dense256.imatrix.gguf")
	must(t, err)
	parsed, err := gguf.Parse(tensorfs.Bytes(whole))
	must(t, err)
	sums := parsed.Tensors[slices.IndexFunc(parsed.Tensors, func(x tensorfs.Tensor) bool { return x.Source == tensor+".in_sum2" })].Data
	old := make([]byte, sums.Size())
	must(t, tensorfs.ReadFull(sums, old, 0))
	nan := bytes.Clone(whole)
	copy(nan[bytes.Index(whole, old):], binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN()))))
	values := make([]float32, 256)
	for i := range values {
		values[i] = 1
	}
	inf, negative := append([]float32{float32(math.Inf(1))}, values[1:]...), append([]float32{-1}, values[1:]...)
	for name, c := range map[string]struct {
		file []byte
		want string // "" if it is taken
	}{
		"size.dat": {olderMatrix(tensor, values[:7]...), "the importance matrix has 7 values of \"blk.0.attn_q.weight\", which needs 256"},
		"inf.dat":  {olderMatrix(tensor, inf...), "it has +Inf for column 0 of \"blk.0.attn_q.weight\""},
		"nan.gguf": {nan, "it has NaN for column 0 of \"blk.0.attn_q.weight\""},
		"neg.dat":  {olderMatrix(tensor, negative...), ""},
		"ok.gguf":  {whole, ""},
	} {
		path, to := filepath.Join(dir, name), filepath.Join(dir, "to-"+name)
		must(t, os.WriteFile(path, c.file, 0o600))
		flags := []string{"--gguf-type", "q4_k_m", "--imatrix", path}
		if c.want == "" {
			succeeds(t, append([]string{"cat", model, "gguf/model.gguf"}, flags...)...)
			continue
		}
		for _, args := range [][]string{{"info", model}, {"ls", model}, {"cat", model, "gguf/model.gguf"}, {"cat", model, "config.json"}, {"export", model, to, "gguf/*"}} {
			failsWith(t, 1, append(args, flags...), c.want)
		}
		failsWith(t, 1, []string{"info", "--gguf-type", "all", "--imatrix", path, model}, c.want)
		if _, err := os.Stat(to); err == nil {
			t.Errorf("%s: something was made", name)
		}
	}
}
