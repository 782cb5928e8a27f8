package tensorfs_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// counted is a file that counts how often it is open.
type counted struct {
	tensorfs.Bytes
	open *int
}

func (c *counted) Close() error { *c.open--; return nil }

// Check reports a change in a place where none is expected.
func (c *counted) Check() error {
	if string(c.Bytes) == "text" {
		return &tensorfs.ChangedError{File: "b"}
	}
	return nil
}

func TestModelFile(t *testing.T) {
	opened, open := 0, 0
	broken := errors.New("broken")
	owned := 1
	own := &counted{tensorfs.Bytes("weights"), &owned}
	m, err := tensorfs.NewModel(tensorfs.Model{Sources: []tensorfs.Source{
		{Name: "b", Open: func() (tensorfs.File, error) {
			opened, open = opened+1, open+1
			return &counted{tensorfs.Bytes("text"), &open}, nil
		}},
		{Name: "a"},
		{Name: "owned", Open: func() (tensorfs.File, error) { return own, nil }},
		{Name: "c", Open: func() (tensorfs.File, error) { return nil, broken }},
	}}, own)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err != nil {
		t.Errorf("before it is open: %v", err)
	}
	for range 2 {
		if d, err := m.File("b"); err != nil || d.Size() != 4 || opened != 1 || open != 1 {
			t.Fatalf("%v, %v, opened %d times, %d open", d, err, opened, open)
		}
	}
	for name, want := range map[string]error{"a": fs.ErrNotExist, "x": fs.ErrNotExist, "c": broken} {
		if d, err := m.File(name); d != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	if d, err := m.File("owned"); err != nil || d != tensorfs.Data(own) {
		t.Errorf("%v, %v", d, err)
	}
	if err := m.Check(); !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("after it changed: %v", err)
	}
	if err := m.Close(); err != nil || open != 0 || owned != 0 {
		t.Errorf("%v, %d and %d open", err, open, owned)
	}
}
