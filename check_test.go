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

// TestCheck asks Data made of Data, of which one changes.
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
