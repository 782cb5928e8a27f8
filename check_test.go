package tensorfs

import (
	"bytes"
	"testing"
)

// watched is Data of a file that may change.
type watched struct {
	*bytes.Reader
	err error
}

func (c *watched) Check() error { return c.err }

// TestCheck checks Data made from several Data if one input changes.
func TestCheck(t *testing.T) {
	a, b := &watched{Reader: bytes.NewReader(make([]byte, 8))}, &watched{Reader: bytes.NewReader(make([]byte, 8))}
	made := map[string]Data{
		"section of b":      Section(b, 2, 3),
		"a, b":              Concat(a, b),
		"a, b in turns":     Interleave(2, a, b),
		"a, section of b":   Concat(a, Section(b, 0, 1)),
		"sections of a, b":  Section(Concat(a, b), 0, 12),
		"text and b":        Concat(Bytes([]byte("x")), b),
		"what has no files": nil,
	}
	made["what has no files"] = Concat(Bytes([]byte("x")), NewText(1, func(dst []byte, _ int) []byte { return dst }))
	for name, d := range made {
		if err := Check(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.err = &ChangedError{File: "b"}
	for name, d := range made {
		want := b.err
		if name == "what has no files" {
			want = nil
		}
		if err := Check(d); err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestCheckPart checks some bytes of Data made from two files if one file changes.
func TestCheckPart(t *testing.T) {
	a, b := &watched{Reader: bytes.NewReader(make([]byte, 8))}, &watched{Reader: bytes.NewReader(make([]byte, 8))}
	b.err = &ChangedError{File: "b"}
	for _, c := range []struct {
		name   string
		d      Data
		off, n int64
		want   error
	}{
		{"a of a, b", Concat(a, b), 0, 8, nil},
		{"the end of a and b", Concat(a, b), 7, 2, b.err},
		{"b of a, b", Concat(a, b), 8, 1, b.err},
		{"all", Concat(a, b), 0, 16, b.err},
		{"nothing", Concat(a, b), 9, 0, nil},
		{"a turn of a", Interleave(2, a, b), 8, 4, nil},
		{"a turn of b", Interleave(2, a, b), 4, 4, b.err},
		{"a whole period", Interleave(2, a, b), 4, 8, b.err},
		{"a section of a, b", Section(Concat(a, b), 4, 8), 0, 4, nil},
		{"its end", Section(Concat(a, b), 4, 8), 4, 4, b.err},
		{"a file", b, 0, 1, b.err},
		{"no file", Bytes("text"), 0, 1, nil},
	} {
		if err := CheckPart(c.d, c.off, c.n); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
