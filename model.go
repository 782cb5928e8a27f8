package tensorfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Model is what a format's parser makes of a path.
type Model struct {
	Format       string    // "gguf", "safetensors", "huggingface", "mlx", "ollama"
	Path         string    // as opened, absolute
	Architecture string    // GGUF's name of it ("llama"), "unknown" without one
	Layout       string    // "gguf" or "hf": whose order the rows of q and k have
	Tensors      []Tensor  // sorted by Name
	Config       []Field   // in the order of the schema
	Metadata     []Meta    // in the order of the source
	Sources      []Source  // files the model consists of, sorted by Name
	Warnings     []string  // what a user should know and no view shows
	ModTime      time.Time // latest of the weight files
	closers      []io.Closer
}

// Field is one entry of config.json: an int64, float64, string, bool or a slice of these.
type Field struct {
	Name  string
	Value any
}

// Source is a file that belongs to the model, shown as a link below source/.
type Source struct {
	Name string // below source/, with slashes; unique
	Path string // absolute
}

// NewModel sorts and checks the tensors of m once for all formats: names are
// unique and usable as file names, and stored sizes fit types and shapes. Later
// code trusts it. The model owns closers from here on, also on error.
func NewModel(m Model, closers ...io.Closer) (*Model, error) {
	m.closers = closers
	if err := m.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", m.Path, err), m.Close())
	}
	return &m, nil
}

func (m *Model) check() error {
	slices.SortFunc(m.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if i > 0 && t.Name == m.Tensors[i-1].Name {
			return fmt.Errorf("tensors %q and %q: both would be called %s: %w", m.Tensors[i-1].Source, t.Source, t.Name, ErrFormat)
		}
		if !ValidName(t.Name) {
			return fmt.Errorf("tensor %q: %q is no file name: %w", t.Source, t.Name, ErrFormat)
		}
		if size, ok := t.DType.Size(t.Shape); !t.DType.Whole() && (!ok || size != t.Data.Size()) {
			return fmt.Errorf("tensor %q: %d bytes do not fit %s of shape %v: %w", t.Source, t.Data.Size(), t.DType, t.Shape, ErrFormat)
		}
	}
	for i := 1; i < len(m.Sources); i++ {
		if m.Sources[i].Name == m.Sources[i-1].Name {
			return fmt.Errorf("two files would be called source/%s: %w", m.Sources[i].Name, ErrFormat)
		}
	}
	return nil
}

// ValidName reports whether s can name a file: not empty, no slash, no control
// byte, neither "." nor "..", at most 255 bytes.
func ValidName(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		if s[i] == '/' || s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// Tensor returns the tensor of that name, nil without one.
func (m *Model) Tensor(name string) *Tensor {
	i, ok := slices.BinarySearchFunc(m.Tensors, name, func(t Tensor, s string) int { return strings.Compare(t.Name, s) })
	if !ok {
		return nil
	}
	return &m.Tensors[i]
}

// Close unmaps the model's files. No Data of the model may be used afterwards.
func (m *Model) Close() error {
	var errs []error
	for _, c := range m.closers {
		errs = append(errs, c.Close())
	}
	m.closers = nil
	return errors.Join(errs...)
}
