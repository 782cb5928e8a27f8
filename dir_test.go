package tensorfs_test

import (
	"slices"
	"testing"

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
