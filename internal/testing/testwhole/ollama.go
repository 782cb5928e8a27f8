package testwhole

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// OllamaTower returns the keys and tensors of a golden model's tower as Ollama's own
// converter wrote them: computed from the model, and equal to the tables of
// testdata/ollama-towers.
func OllamaTower(tb testing.TB, name string) ([]tensorfs.Meta, []tensorfs.Tensor) {
	tb.Helper()
	dir := filepath.Join(Data(tb), "ollama-towers")
	model := filepath.Join(dir, name)
	if _, err := os.Stat(model); err != nil {
		model = filepath.Join(Data(tb), "architectures", name)
	}
	m := Open(tb, model)
	var list []tensorfs.Tensor
	for _, r := range Table(tb, filepath.Join(dir, name+".tsv")) {
		s := tensorfs.Tensor{Source: r[0], DType: map[string]tensorfs.DType{"F16": tensorfs.F16, "F32": tensorfs.F32}[r[1]]}
		for _, n := range strings.Split(r[2], "x") {
			d, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			s.Shape = append([]int64{d}, s.Shape...)
		}
		i := slices.IndexFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Source == r[5] })
		if i < 0 {
			tb.Fatalf("%s has no tensor %s", name, r[5])
		}
		numbers := tensorfs.Tensor{DType: tensorfs.F32, Shape: s.Shape, Data: inOllama(tb, &m.Tensors[i], strings.Split(r[6], "/"))}
		var err error
		if s.Data, err = views.Encode(&numbers, s.DType); err != nil {
			tb.Fatal(err)
		}
		if sum := Sum(tb, s.Data); sum != r[4] {
			tb.Errorf("%s: %s is not what Ollama's converter writes", name, s.Source)
		}
		s.Data = tensorfs.Bytes(Read(tb, s.Data))
		list = append(list, s)
	}
	b, err := os.ReadFile(filepath.Join(dir, name+".meta.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var keys map[string]struct {
		Type  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(b, &keys); err != nil {
		tb.Fatal(err)
	}
	var meta []tensorfs.Meta
	for key, x := range keys {
		v, ok := map[string]any{
			"UINT32": new(uint32), "FLOAT32": new(float32), "BOOL": new(bool), "STRING": new(string),
			"array:FLOAT32": new([]float32), "array:INT32": new([]int32), "array:ARRAY": new([]int32),
		}[x.Type]
		if !ok {
			tb.Fatalf("%s: type %s", key, x.Type)
		}
		if err := json.Unmarshal(x.Value, v); err != nil {
			tb.Fatalf("%s: %v", key, err)
		}
		meta = append(meta, tensorfs.Meta{Key: key, Value: pointed(v)})
	}
	slices.SortFunc(meta, func(a, b tensorfs.Meta) int { return strings.Compare(a.Key, b.Key) })
	return meta, list
}

// pointed is what a pointer points to.
func pointed(v any) any {
	switch v := v.(type) {
	case *uint32:
		return *v
	case *float32:
		return *v
	case *bool:
		return *v
	case *string:
		return *v
	case *[]float32:
		return *v
	case *[]int32:
		return *v
	}
	panic(fmt.Sprintf("%T", v))
}

// inOllama converts a tensor as Ollama's converter does.
func inOllama(tb testing.TB, t *tensorfs.Tensor, how []string) tensorfs.Bytes {
	tb.Helper()
	d, err := views.Encode(t, tensorfs.F32)
	if err != nil {
		tb.Fatal(err)
	}
	b, s := Read(tb, d), t.Numbers()
	var args []int64
	for _, n := range how[1:] {
		x, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		args = append(args, x)
	}
	switch how[0] {
	case "same":
		return b
	case "plus1":
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))+1))
		}
		return b
	case "rows":
		n := int64(len(b)) / args[1]
		return b[args[0]*n : (args[0]+1)*n]
	case "frame":
		var out []byte
		for n := 4 * s[3] * s[4]; len(b) > 0; b = b[2*n:] {
			out = append(out, b[args[0]*n:(args[0]+1)*n]...)
		}
		return out
	case "pixels":
		var out []byte
		for n := 4 * s[1]; len(b) > 0; b = b[n:] {
			for colour := int64(0); colour < 12; colour += 4 {
				for at := colour; at < n; at += 12 {
					out = append(out, b[at:at+4]...)
				}
			}
		}
		return out
	}
	tb.Fatalf("%s is not known", how[0])
	return nil
}
