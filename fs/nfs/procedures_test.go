package nfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// words reads all that is left of results.
func words(r *testnfs.Results) (all []uint32) {
	for r.Rest() > 0 && r.Err == nil {
		all = append(all, r.Uint32())
	}
	return all
}

// TestFailures calls every procedure in a way that it refuses, and looks at what follows
// the status: attributes that are left out, or wcc_data that say nothing.
func TestFailures(t *testing.T) {
	c, root, s := mounted(t, small(), Options{})
	find := func(path string) testnfs.Handle {
		h, _, err := c.Find(root, path)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, link, dir := find("a"), find("link"), find("dir")
	forged := slices.Clone(a)
	forged[handleBytes-1] ^= 1
	gone := testnfs.Handle(s.handles.put(nil, 1<<40))
	args := func(h testnfs.Handle) testnfs.Args { return testnfs.Args{}.Opaque(h) }
	name := func(h testnfs.Handle, name string) testnfs.Args { return args(h).Opaque([]byte(name)) }
	list := func(h testnfs.Handle, cookie uint64, room uint32) testnfs.Args {
		return args(h).Uint64(cookie).Uint64(0).Uint32(room, room)
	}
	for _, test := range []struct {
		procedure uint32
		args      testnfs.Args
		status    testnfs.Status
		words     int
	}{
		{1, args(forged), testnfs.BadHandle, 0},
		{1, args(nil), testnfs.BadHandle, 0},
		{1, args(slices.Concat(a, a)), testnfs.BadHandle, 0},
		{1, args(make(testnfs.Handle, 64)), testnfs.BadHandle, 0},
		{1, args(a[:handleBytes-4]), testnfs.BadHandle, 0},
		{1, args(gone), testnfs.Stale, 0},
		{2, args(a), testnfs.ROFS, 2},
		{3, name(root, "b"), testnfs.NoEnt, 1},
		{3, name(root, ""), testnfs.NoEnt, 1},
		{3, name(root, ".DS_Store"), testnfs.NoEnt, 1},
		{3, name(root, "._a"), testnfs.NoEnt, 1},
		{3, name(root, ".Spotlight-V100"), testnfs.NoEnt, 1},
		{3, name(root, ".hidden"), testnfs.NoEnt, 1},
		{3, name(dir, ".metadata_never_index"), testnfs.NoEnt, 1},
		{3, name(root, strings.Repeat("n", 255)), testnfs.NoEnt, 1},
		{3, name(root, strings.Repeat("n", 256)), testnfs.NameTooLong, 1},
		{3, name(root, strings.Repeat("n", 60000)), testnfs.NameTooLong, 1},
		{3, name(a, "b"), testnfs.NotDir, 1},
		{3, name(a, ".."), testnfs.NotDir, 1},
		{3, name(link, "b"), testnfs.NotDir, 1},
		{3, name(gone, "b"), testnfs.Stale, 1},
		{4, args(forged).Uint32(1), testnfs.BadHandle, 1},
		{5, args(a), testnfs.Inval, 1},
		{5, args(dir), testnfs.Inval, 1},
		{6, args(dir).Uint64(0).Uint32(1), testnfs.IsDir, 1},
		{6, args(link).Uint64(0).Uint32(1), testnfs.Inval, 1},
		{6, args(forged).Uint64(0).Uint32(1), testnfs.BadHandle, 1},
		{7, args(a).Uint64(0).Uint32(1, 2).Opaque([]byte("x")), testnfs.ROFS, 2},
		{8, name(root, "new").Uint32(0), testnfs.ROFS, 2},
		{9, name(root, "new"), testnfs.ROFS, 2},
		{10, name(root, "new"), testnfs.ROFS, 2},
		{11, name(root, "new"), testnfs.ROFS, 2},
		{12, name(root, "a"), testnfs.ROFS, 2},
		{13, name(root, "dir"), testnfs.ROFS, 2},
		{14, append(name(root, "a"), name(root, "b")...), testnfs.ROFS, 4},
		{15, append(args(a), name(root, "b")...), testnfs.ROFS, 3},
		{16, list(a, 0, 4096), testnfs.NotDir, 1},
		{16, list(root, 0, 0), testnfs.TooSmall, 1},
		{16, list(root, 0, 120), testnfs.TooSmall, 1},
		{16, list(root, 7, 4096), testnfs.BadCookie, 1},
		{16, list(root, 1<<63, 4096), testnfs.BadCookie, 1},
		{17, list(link, 0, 4096), testnfs.NotDir, 1},
		{17, list(root, 0, 200), testnfs.TooSmall, 1},
		{17, list(gone, 0, 4096), testnfs.Stale, 1},
		{18, args(forged), testnfs.BadHandle, 1},
		{19, args(forged), testnfs.BadHandle, 1},
		{20, args(gone), testnfs.Stale, 1},
		{21, args(a).Uint64(0).Uint32(0), testnfs.ROFS, 2},
	} {
		r, err := c.Do3(testnfs.NFS, test.procedure, test.args)
		if !errors.Is(err, test.status) {
			t.Errorf("procedure %d: %v, want %v", test.procedure, err, test.status)
			continue
		}
		if rest := words(r); !slices.Equal(rest, make([]uint32, test.words)) {
			t.Errorf("procedure %d: %d follow status %d", test.procedure, rest, test.status)
		}
	}
	if h := s.Health(); len(h.Errors)+len(h.Changed) > 0 {
		t.Errorf("it complains: %+v", h)
	}
}

// TestAttributes checks the attributes of each kind of node.
func TestAttributes(t *testing.T) {
	when := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)
	c, root, _ := mounted(t, small(), Options{ModTime: when, FSID: 77, UID: 501, GID: 20})
	times := [2]uint32{uint32(when.Unix()), 123456789}
	for path, want := range map[string]testnfs.Attr{
		".":                     {Type: testnfs.Dir, Mode: 0o555, Links: 4, Size: block, Used: block, FileID: 1},
		"a":                     {Type: testnfs.File, Mode: 0o444, Links: 1, Size: 9, Used: block, FileID: 2},
		"dir":                   {Type: testnfs.Dir, Mode: 0o555, Links: 3, Size: block, Used: block, FileID: 3},
		"later":                 {Type: testnfs.Dir, Mode: 0o555, Links: 1, Size: block, Used: block, FileID: 4},
		"link":                  {Type: testnfs.Link, Mode: 0o777, Links: 1, Size: 5, Used: block, FileID: 5},
		"dir/b":                 {Type: testnfs.File, Mode: 0o444, Links: 1, FileID: 6},
		"dir/deep":              {Type: testnfs.Dir, Mode: 0o555, Links: 2, Size: block, Used: block, FileID: 7},
		"dir/deep/c":            {Type: testnfs.File, Mode: 0o444, Links: 1, Size: 3, Used: block, FileID: 8 + 1<<20},
		"dir/..":                {Type: testnfs.Dir, Mode: 0o555, Links: 4, Size: block, Used: block, FileID: 1},
		"dir/deep/..":           {Type: testnfs.Dir, Mode: 0o555, Links: 3, Size: block, Used: block, FileID: 3},
		"..":                    {Type: testnfs.Dir, Mode: 0o555, Links: 4, Size: block, Used: block, FileID: 1},
		"later/made":            {Type: testnfs.File, Mode: 0o444, Links: 1, Size: 5, Used: block, FileID: 8},
		".metadata_never_index": {Type: testnfs.File, Mode: 0o444, Links: 1, FileID: neverIndex.number},
	} {
		want.UID, want.GID, want.FSID, want.Times = 501, 20, 77, [3][2]uint32{times, times, times}
		h, found, err := c.Find(root, path)
		if err != nil || found != want {
			t.Errorf("%s: %+v, %v, want %+v", path, found, err, want)
			continue
		}
		if got, err := c.GetAttr(h); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", path, got, err, want)
		}
	}
}

// TestAnswers holds what the other procedures answer, word by word.
func TestAnswers(t *testing.T) {
	c, root, _ := mounted(t, small(), Options{})
	a, _, err := c.Find(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	link, _, err := c.Find(root, "link")
	if err != nil {
		t.Fatal(err)
	}
	if target, err := c.ReadLink(link); err != nil || target != "dir/b" {
		t.Errorf("%q, %v", target, err)
	}
	for _, test := range []struct {
		name      string
		procedure uint32
		args      testnfs.Args
		want      []uint32
	}{
		{"ACCESS of a file", 4, testnfs.Args{}.Opaque(a).Uint32(0x3f), []uint32{1}},
		{"ACCESS of a directory", 4, testnfs.Args{}.Opaque(root).Uint32(0x3f), []uint32{0x23}},
		{"ACCESS for little", 4, testnfs.Args{}.Opaque(root).Uint32(0x1e), []uint32{2}},
		{"FSSTAT", 18, testnfs.Args{}.Opaque(root), []uint32{0, 2 * block, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1<<32 - 1}},
		{"FSINFO", 19, testnfs.Args{}.Opaque(root), []uint32{1 << 20, 1 << 20, 4096, 32 << 10, 32 << 10, 4096, 64 << 10, 1<<31 - 1, 1<<32 - 1, 0, 1, 10}},
		{"PATHCONF", 20, testnfs.Args{}.Opaque(root), []uint32{65535, 255, 1, 1, 0, 1}},
	} {
		r, err := c.Do3(testnfs.NFS, test.procedure, test.args)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if _, ok := r.PostAttr(); !ok {
			t.Errorf("%s: no attributes", test.name)
		}
		if got := words(r); !slices.Equal(got, test.want) || r.Err != nil {
			t.Errorf("%s: %d, %v, want %d", test.name, got, r.Err, test.want)
		}
	}
	for _, program := range []uint32{testnfs.NFS, testnfs.MOUNT} {
		if r, err := c.Do(program, testnfs.Version, 0, nil); err != nil || r.Rest() != 0 {
			t.Errorf("NULL of %d: %+v, %v", program, r, err)
		}
	}
}

// TestReads reads every range of a small file.
func TestReads(t *testing.T) {
	const text = "some text"
	c, root, _ := mounted(t, small(), Options{})
	h, _, err := c.Lookup(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	for off := range len(text) + 3 {
		for n := range len(text) + 3 {
			first := min(off, len(text))
			want := text[first:min(first+n, len(text))]
			p := make([]byte, n)
			got, eof, err := c.Read(h, p, int64(off))
			if err != nil || string(p[:got]) != want || eof != (first+len(want) == len(text)) {
				t.Errorf("%d bytes at %d: %q, end %v, %v", n, off, p[:got], eof, err)
			}
		}
	}
	if n, eof, err := c.Read(h, make([]byte, 10), -1); n != 0 || !eof || err != nil {
		t.Errorf("far behind the end: %d bytes, end %v, %v", n, eof, err)
	}
	if _, err := c.Do3(testnfs.NFS, 6, testnfs.Args{}.Opaque(h).Uint64(0).Uint32(1<<32-1)); err != nil {
		t.Errorf("as much as there can be: %v", err)
	}
}

// TestOwnerOnly lets the owner and root read, and others only look.
func TestOwnerOnly(t *testing.T) {
	c, root, _ := mounted(t, small(), Options{UID: 501, OwnerOnly: true})
	for _, uid := range []uint32{501, 0, 502} {
		c.UID = uid
		mine := uid != 502
		if _, err := c.GetAttr(root); err != nil {
			t.Errorf("%d: %v", uid, err)
		}
		for what, err := range map[string]error{
			"list":   func() error { _, err := c.ReadDirPlus(root); return err }(),
			"lookup": func() error { _, _, err := c.Lookup(root, "a"); return err }(),
			"link":   func() error { _, err := c.ReadLink(root); return err }(),
			"read":   func() error { _, _, err := c.Read(root, make([]byte, 1), 0); return err }(),
		} {
			refused := errors.Is(err, testnfs.Access)
			if refused == mine {
				t.Errorf("user %d, %s: %v", uid, what, err)
			}
		}
		r, err := c.Do3(testnfs.NFS, 4, testnfs.Args{}.Opaque(root).Uint32(0x3f))
		if err != nil {
			t.Fatal(err)
		}
		r.PostAttr()
		if allowed := r.Uint32(); (allowed != 0) != mine {
			t.Errorf("user %d may do %#x", uid, allowed)
		}
	}
	r, err := c.DoAs(0, nil, testnfs.NFS, testnfs.Version, 3, testnfs.Args{}.Opaque(root).Opaque([]byte("a")))
	if err != nil {
		t.Fatal(err)
	}
	if status := testnfs.Status(r.Uint32()); status != testnfs.Access {
		t.Errorf("somebody without a name: %v", status)
	}
}

// TestNewRefuses holds what cannot be served.
func TestNewRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		tree tensorfs.Dir
		o    Options
	}{
		"a short key":     {small(), Options{Key: make([]byte, 31)}},
		"a short token":   {small(), Options{Token: strings.Repeat("a", 31)}},
		"a long token":    {small(), Options{Token: strings.Repeat("a", 34)}},
		"no token":        {small(), Options{Token: strings.Repeat("/", 32)}},
		"names in a mess": {tensorfs.Entries{file("a", ""), file("a", "")}, Options{}},
		"a library":       {tensorfs.Entries{{Name: "a", Lazy: &tensorfs.Lazy{}}}, Options{}},
	} {
		if _, err := New(test.tree, test.o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	s, err := New(small(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := New(small(), Options{})
	if err != nil || s.Token() == again.Token() || string(s.Key()) == string(again.Key()) || len(s.Key()) != 32 || len(s.Token()) != 32 {
		t.Error(fmt.Sprint("two servers: ", s.Token(), again.Token()), err)
	}
}
