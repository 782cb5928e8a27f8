package tensorfs

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func zeros(n int) Data { return bytes.NewReader(make([]byte, n)) }

// closed counts calls of Close.
type closed int

func (c *closed) Close() error { *c++; return nil }

func TestNewModel(t *testing.T) {
	good := func(name string) Tensor {
		return Tensor{Name: name, Source: "src." + name, DType: F16, Shape: []int64{2}, Data: zeros(4)}
	}
	tensors := func(edit func(ts []Tensor)) Model {
		ts := []Tensor{good("b"), good("a"), good("c")}
		edit(ts)
		return Model{Path: "dir/m.gguf", Tensors: ts}
	}
	sources := func(names ...string) Model {
		m := Model{Path: "dir/m.gguf"}
		for _, n := range names {
			m.Sources = append(m.Sources, Source{Name: n, Path: "/x"})
		}
		return m
	}
	long := strings.Repeat("n", 255)
	for _, test := range []struct {
		name  string
		model Model
		want  string // part of the error; "" for none
	}{
		{"empty", Model{}, ""},
		{"three", tensors(func([]Tensor) {}), ""},
		{"longest name", tensors(func(ts []Tensor) { ts[0].Name = long }), ""},
		{"scalar", tensors(func(ts []Tensor) { ts[0].Shape, ts[0].Data = nil, zeros(2) }), ""},
		{"empty tensor", tensors(func(ts []Tensor) { ts[0].Shape, ts[0].Data = []int64{3, 0}, zeros(0) }), ""},
		{"type without size", tensors(func(ts []Tensor) { ts[0].DType, ts[0].Data = TL1, zeros(77) }), ""},
		{"name twice", tensors(func(ts []Tensor) { ts[2].Name = "a" }), `tensor "src.c": it and "src.a" would both be called a;`},
		{"no name", tensors(func(ts []Tensor) { ts[2].Name = "" }), `tensor "src.c": "" is not a file name`},
		{"dot", tensors(func(ts []Tensor) { ts[2].Name = "." }), `"." is not a file name`},
		{"dots", tensors(func(ts []Tensor) { ts[2].Name = ".." }), `".." is not a file name`},
		{"slash", tensors(func(ts []Tensor) { ts[2].Name = "x/y" }), `"x/y" is not a file name`},
		{"NUL", tensors(func(ts []Tensor) { ts[2].Name = "x\x00" }), `"x\x00" is not a file name`},
		{"newline", tensors(func(ts []Tensor) { ts[2].Name = "x\n" }), `"x\n" is not a file name`},
		{"delete", tensors(func(ts []Tensor) { ts[2].Name = "x\x7f" }), `"x\x7f" is not a file name`},
		{"long name", tensors(func(ts []Tensor) { ts[2].Name = long + "n" }), `... (256 bytes) is not a file name`},
		{"too short", tensors(func(ts []Tensor) { ts[0].Data = zeros(3) }), `tensor "src.b": 3 bytes do not fit F16 of shape [2]`},
		{"too long", tensors(func(ts []Tensor) { ts[0].Data = zeros(5) }), `5 bytes do not fit F16`},
		{"no whole blocks", tensors(func(ts []Tensor) { ts[0].DType, ts[0].Shape = Q4_0, []int64{2, 16} }), `4 bytes do not fit Q4_0 of shape [2 16]`},
		{"negative", tensors(func(ts []Tensor) { ts[0].Shape = []int64{-1, -2} }), `shape [-1 -2] has 2^63 elements or more`},
		{"overflow", tensors(func(ts []Tensor) { ts[0].DType, ts[0].Shape = TL1, []int64{1 << 40, 1 << 40} }), `elements or more`},
		{"overflow after zero", tensors(func(ts []Tensor) { ts[0].Shape, ts[0].Data = []int64{0, 1 << 40, 1 << 40}, zeros(0) }), `elements or more`},
		{"weight", tensors(func(ts []Tensor) { ts[0].Quant = &Quant{Weight: "d"} }), ""},
		{"weight of its own name", tensors(func(ts []Tensor) { ts[0].Quant = &Quant{Weight: "b"} }), ""},
		{"weight of another's name", tensors(func(ts []Tensor) { ts[0].Quant = &Quant{Weight: "c"} }), `tensor "src.b": it and "src.c" would both be called c`},
		{"weight twice", tensors(func(ts []Tensor) { ts[0].Quant, ts[1].Quant = &Quant{Weight: "d"}, &Quant{Weight: "d"} }), `tensor "src.b": it and "src.a" would both be called d`},
		{"weight that is not a name", tensors(func(ts []Tensor) { ts[0].Quant = &Quant{Weight: "d/e"} }), `"d/e" is not a file name`},
		{"sources", sources("a", "b/c", "b/d", "b-c"), ""},
		{"source of any bytes", sources("a\nb\xff"), ""},
		{"source twice", sources("a", "b", "a"), "two files would be called source/a"},
		{"source above", sources("../a"), `"../a" is not a file name`},
		{"source from the root", sources("/a"), `"/a" is not a file name`},
		{"source without name", sources(""), `"" is not a file name`},
		{"source with empty part", sources("a//b"), `"a//b" is not a file name`},
		{"source below a source", sources("a", "a-b", "a/b"), `source/a would be both a file and a directory`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c closed
			m, err := NewModel(test.model, &c, &c)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				for i := 1; i < len(m.Tensors); i++ {
					if m.Tensors[i-1].Name >= m.Tensors[i].Name {
						t.Errorf("%s is before %s", m.Tensors[i-1].Name, m.Tensors[i].Name)
					}
				}
				if c != 0 {
					t.Error("closed too early")
				}
				if err := errors.Join(m.Close(), m.Close()); err != nil || c != 2 {
					t.Errorf("%d closed, %v", c, err)
				}
				return
			}
			if m != nil || err == nil || !errors.Is(err, ErrFormat) || c != 2 {
				t.Fatalf("%v, %v, %d closed", m, err, c)
			}
			if s := err.Error(); !strings.HasPrefix(s, "dir/m.gguf: ") || !strings.Contains(s, test.want) || strings.ContainsAny(s, "\n\x00") {
				t.Errorf("error %q, want %q", s, test.want)
			}
		})
	}
}

func TestModelTensor(t *testing.T) {
	m, err := NewModel(Model{Tensors: []Tensor{
		{Name: "b", Source: "z", DType: U8, Shape: []int64{1}, Data: zeros(1)},
		{Name: "a", Source: "c", DType: U8, Shape: []int64{2}, Data: zeros(2)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if b := m.TensorBySource("z"); b != &m.Tensors[1] || m.TensorBySource("b") != nil {
		t.Errorf("z is %+v", b)
	}
	if x := m.Tensor("a"); x == nil || x.Data.Size() != 2 || x != &m.Tensors[0] {
		t.Errorf("a is %+v", x)
	}
	for _, name := range []string{"", "aa", "c"} {
		if x := m.Tensor(name); x != nil {
			t.Errorf("%q is %+v", name, x)
		}
	}
}

func TestModelMeta(t *testing.T) {
	m := Model{Metadata: []Meta{{"a", "first"}, {"b", uint32(2)}}}
	if m.Meta("a") != "first" || m.Meta("b") != uint32(2) || m.Meta("c") != nil {
		t.Errorf("a %v, b %v, c %v", m.Meta("a"), m.Meta("b"), m.Meta("c"))
	}
}

func TestCols(t *testing.T) {
	for _, test := range []struct {
		shape []int64
		want  int64
	}{{nil, 1}, {[]int64{7}, 7}, {[]int64{2, 3}, 3}, {[]int64{2, 0}, 0}} {
		if got := (&Tensor{Shape: test.shape}).Cols(); got != test.want {
			t.Errorf("%v has rows of %d", test.shape, got)
		}
	}
}

func TestFormatError(t *testing.T) {
	const advice = "; the file is damaged or incomplete: fetch it again"
	for _, test := range []struct {
		err  FormatError
		want string
		kind error
	}{
		{FormatError{File: "a/b.gguf", Offset: -1, Problem: "bad"}, "a/b.gguf: bad" + advice, ErrFormat},
		{FormatError{File: "b", Tensor: "t", Offset: 0, Problem: "bad", Kind: ErrFormat}, `b: tensor "t": bad (at byte 0)` + advice, ErrFormat},
		{FormatError{File: "b", Offset: 1 << 40, Problem: "new", Advice: "wait", Kind: ErrUnsupported}, "b: new (at byte 1099511627776); wait", ErrUnsupported},
		{FormatError{File: "b\x1b[2J", Tensor: "t\n\xff", Offset: -1, Problem: "bad"}, `"b\x1b[2J": tensor "t\n\xff": bad` + advice, ErrFormat},
		{FormatError{File: "Modelle/Größe 7.gguf", Tensor: strings.Repeat("x", 101), Offset: -1, Problem: "bad"},
			`Modelle/Größe 7.gguf: tensor "` + strings.Repeat("x", 100) + `"... (101 bytes): bad` + advice, ErrFormat},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%q\nwant %q", got, test.want)
		}
		if !errors.Is(&test.err, test.kind) || errors.Is(&test.err, ErrChanged) {
			t.Errorf("%v is of kind %v", &test.err, errors.Unwrap(&test.err))
		}
	}
}

// checked is a closer that may have changed.
type checked struct{ err error }

func (c checked) Close() error { return nil }
func (c checked) Check() error { return c.err }

func TestModelCheck(t *testing.T) {
	m, err := NewModel(Model{}, checked{}, io.NopCloser(nil), checked{})
	if err != nil || m.Check() != nil {
		t.Fatal(err, m.Check())
	}
	m, err = NewModel(Model{}, checked{&ChangedError{File: "a"}}, checked{}, checked{&ChangedError{File: "b", Why: "a page"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "a: file changed since it was opened; open it again (unmount and mount, if it is mounted)\nb: a page: file changed since it was opened; open it again (unmount and mount, if it is mounted)"
	if err := m.Check(); !errors.Is(err, ErrChanged) || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestOnce holds that what is kept with a model is made once for each key.
func TestOnce(t *testing.T) {
	m, err := NewModel(Model{})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	ask := func(m *Model, key string) any { return m.Once(key, func() any { calls++; return key + "!" }) }
	copied := *m
	for _, x := range []*Model{m, m, &copied} {
		if got := ask(x, "a"); got != "a!" {
			t.Errorf("got %v, want a!", got)
		}
	}
	if got := ask(m, "b"); got != "b!" || calls != 2 {
		t.Errorf("got %v after %d calls, want b! after 2", got, calls)
	}
	if ask(&Model{}, "a") != "a!" || calls != 3 {
		t.Errorf("a model that nobody opened: %d calls, want 3", calls)
	}
}
