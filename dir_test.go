package tensorfs_test

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
)

func TestNest(t *testing.T) {
	made := 0
	var list []tensorfs.Entry
	for _, name := range []string{"b/c/d", "a", "b.x/y", "b/a", "b-"} {
		list = append(list, tensorfs.Entry{Name: name, Link: name})
	}
	for _, dir := range []func(tensorfs.Entries) tensorfs.Dir{nil, func(e tensorfs.Entries) tensorfs.Dir { made++; return e }} {
		var paths []string
		err := tensorfs.Walk(tensorfs.Nest(list, dir), func(path string, e tensorfs.Entry) error {
			if e.Dir != nil {
				path += "/"
			} else if e.Link != path {
				t.Errorf("%s is the entry of %s", path, e.Link)
			}
			paths = append(paths, path)
			return nil
		})
		if want := []string{"a", "b/", "b/a", "b/c/", "b/c/d", "b-", "b.x/", "b.x/y"}; err != nil || !slices.Equal(paths, want) {
			t.Errorf("%v, %v", paths, err)
		}
	}
	if made != 4 { // the top and three below it
		t.Errorf("%d directories were made", made)
	}
	if n := tensorfs.Nest(nil, nil).Len(); n != 0 {
		t.Errorf("%d entries of none", n)
	}
	for _, path := range []string{"b/c/d", "b.x/y", "b-"} {
		if e, err := tensorfs.Find(tensorfs.Nest(list, nil), path); err != nil || e.Link != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestWithEntry adds entries at paths: the first directory does not change, and a directory that changes
// has the later of two times.
func TestWithEntry(t *testing.T) {
	now, later := time.Unix(1, 0), time.Unix(2, 0)
	file := func(text string) tensorfs.Entry { return tensorfs.Entry{Data: tensorfs.Bytes(text)} }
	one := tensorfs.WithEntry(nil, "b/x", file("1"), later)
	two := tensorfs.WithEntry(tensorfs.WithEntry(one, "a", file("2"), now), "b/x", file("3"), now)
	list := func(d tensorfs.Dir) (all []string) {
		err := tensorfs.Walk(d, func(path string, e tensorfs.Entry) error {
			if e.Dir != nil {
				all = append(all, fmt.Sprint(path, "/ ", e.Dir.(tensorfs.Dated).ModTime().Unix()))
				return nil
			}
			text, err := io.ReadAll(io.NewSectionReader(e.Data, 0, e.Data.Size()))
			all = append(all, path+" "+string(text))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return all
	}
	if got, want := list(one), []string{"b/ 2", "b/x 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := list(two), []string{"a 2", "b/ 2", "b/x 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := two.(tensorfs.Dated).ModTime(); !got.Equal(later) {
		t.Errorf("%v, want %v", got, later)
	}
}
