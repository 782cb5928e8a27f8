package testnfs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Status is an error of NFS or MOUNT by its number.
type Status uint32

// Statuses of NFS version 3, and of MOUNT if it has the same.
const (
	NoEnt       Status = 2
	IO          Status = 5
	Access      Status = 13
	NotDir      Status = 20
	IsDir       Status = 21
	Inval       Status = 22
	ROFS        Status = 30
	NameTooLong Status = 63
	Stale       Status = 70
	BadHandle   Status = 10001
	BadCookie   Status = 10003
	TooSmall    Status = 10005
)

func (s Status) Error() string { return fmt.Sprintf("the server answers with status %d", uint32(s)) }

// Handle is a file handle.
type Handle []byte

// Attr are attributes.
type Attr struct {
	Type, Mode, Links, UID, GID uint32
	Size, Used, FSID, FileID    uint64
	Times                       [3][2]uint32 // accessed, modified, changed: seconds and nanoseconds
}

// Attr reads attributes.
func (r *Results) Attr() (a Attr) {
	for _, p := range []*uint32{&a.Type, &a.Mode, &a.Links, &a.UID, &a.GID} {
		*p = r.Uint32()
	}
	a.Size, a.Used = r.Uint64(), r.Uint64()
	r.Uint64() // the device that a special file is
	a.FSID, a.FileID = r.Uint64(), r.Uint64()
	for i := range a.Times {
		a.Times[i] = [2]uint32{r.Uint32(), r.Uint32()}
	}
	return a
}

// PostAttr reads attributes that may be missing.
func (r *Results) PostAttr() (a Attr, ok bool) {
	if ok = r.Bool(); ok {
		a = r.Attr()
	}
	return a, ok
}

// done returns the first error of a reply that should have no more.
func (r *Results) done() error {
	if r.Err == nil && len(r.b) > 0 {
		return fmt.Errorf("%d bytes too many in the reply", len(r.b))
	}
	return r.Err
}

// Do3 calls a procedure that gives a status, and returns what follows it. After a
// status that is not 0, Results are there as well as the error.
func (c *Client) Do3(program, procedure uint32, args Args) (*Results, error) {
	r, err := c.Do(program, Version, procedure, args)
	if err != nil {
		return nil, err
	}
	if s := r.Uint32(); s != 0 && r.Err == nil {
		return r, Status(s)
	}
	return r, r.Err
}

// Mount asks for the handle of a path.
func (c *Client) Mount(path string) (Handle, error) {
	r, err := c.Do3(MOUNT, 1, Args{}.Opaque([]byte(path)))
	if err != nil {
		return nil, err
	}
	defer r.Free()
	h := bytes.Clone(r.Opaque())
	for range r.Uint32() {
		r.Uint32()
	}
	return h, r.done()
}

// Unmount reports that a path is unmounted.
func (c *Client) Unmount(path string) error {
	r, err := c.Do(MOUNT, Version, 3, Args{}.Opaque([]byte(path)))
	if err != nil {
		return err
	}
	return r.done()
}

// GetAttr returns the attributes of a file.
func (c *Client) GetAttr(h Handle) (a Attr, err error) {
	r, err := c.Do3(NFS, 1, Args{}.Opaque(h))
	if err != nil {
		return a, err
	}
	defer r.Free()
	a = r.Attr()
	return a, r.done()
}

// Lookup finds a name in a directory.
func (c *Client) Lookup(dir Handle, name string) (h Handle, a Attr, err error) {
	r, err := c.Do3(NFS, 3, Args{}.Opaque(dir).Opaque([]byte(name)))
	if err != nil {
		return nil, a, err
	}
	defer r.Free()
	h = bytes.Clone(r.Opaque())
	a, _ = r.PostAttr()
	r.PostAttr()
	return h, a, r.done()
}

// Find looks a path up, name by name.
func (c *Client) Find(h Handle, path string) (_ Handle, a Attr, err error) {
	for _, name := range strings.Split(path, "/") {
		if h, a, err = c.Lookup(h, name); err != nil {
			return nil, a, fmt.Errorf("%s: %w", path, err)
		}
	}
	return h, a, nil
}

// ReadLink returns the target of a link.
func (c *Client) ReadLink(h Handle) (string, error) {
	r, err := c.Do3(NFS, 5, Args{}.Opaque(h))
	if err != nil {
		return "", err
	}
	defer r.Free()
	r.PostAttr()
	target := string(r.Opaque())
	return target, r.done()
}

// Read reads up to len(p) bytes with one call, and reports whether the file ends there.
func (c *Client) Read(h Handle, p []byte, off int64) (n int, eof bool, err error) {
	r, err := c.Do3(NFS, 6, Args{}.Opaque(h).Uint64(uint64(off)).Uint32(uint32(len(p))))
	if err != nil {
		return 0, false, err
	}
	defer r.Free()
	r.PostAttr()
	count := r.Uint32()
	eof = r.Bool()
	b := r.Opaque()
	if err := r.done(); err != nil {
		return 0, false, err
	}
	if int(count) != len(b) || len(b) > len(p) {
		return 0, false, fmt.Errorf("%d bytes where %d were asked for and %d promised", len(b), len(p), count)
	}
	return copy(p, b), eof, nil
}

// ReadAll reads a file from its start to its end, with calls for so many bytes.
func (c *Client) ReadAll(h Handle, step int) (all []byte, err error) {
	buf := make([]byte, step)
	for {
		n, eof, err := c.Read(h, buf, int64(len(all)))
		if err != nil {
			return nil, err
		}
		all = append(all, buf[:n]...)
		switch {
		case eof:
			return all, nil
		case n == 0:
			return nil, errors.New("no byte, and no end")
		}
	}
}

// DirEntry is a name in a directory.
type DirEntry struct {
	Name   string
	FileID uint64
	Cookie uint64
	Attr   Attr   // of ReadDirPlus
	Handle Handle // of ReadDirPlus
}

// List makes one READDIR or READDIRPLUS, with room for some bytes.
func (c *Client) List(dir Handle, plus bool, cookie uint64, room uint32) (entries []DirEntry, eof bool, err error) {
	args, procedure := Args{}.Opaque(dir).Uint64(cookie).Uint64(0), uint32(16)
	if plus {
		args, procedure = args.Uint32(room), 17
	}
	r, err := c.Do3(NFS, procedure, args.Uint32(room))
	if err != nil {
		return nil, false, err
	}
	defer r.Free()
	if r.Rest() > int(room) {
		return nil, false, fmt.Errorf("%d bytes where there was room for %d", r.Rest(), room)
	}
	r.PostAttr()
	r.Uint64()
	for r.Bool() && r.Err == nil {
		e := DirEntry{FileID: r.Uint64(), Name: string(r.Opaque()), Cookie: r.Uint64()}
		if plus {
			e.Attr, _ = r.PostAttr()
			if r.Bool() {
				e.Handle = bytes.Clone(r.Opaque())
			}
		}
		entries = append(entries, e)
	}
	eof = r.Bool()
	return entries, eof, r.done()
}

// ReadDirPlus lists a directory, with attributes and handles. It calls as often as it
// has to.
func (c *Client) ReadDirPlus(dir Handle) (all []DirEntry, err error) {
	cookie := uint64(0)
	for {
		entries, eof, err := c.List(dir, true, cookie, 64<<10)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
		if eof {
			return all, nil
		}
		if len(entries) == 0 {
			return nil, errors.New("no entry, and no end")
		}
		cookie = entries[len(entries)-1].Cookie
	}
}

// Walk calls fn for everything below a directory but "." and "..".
func (c *Client) Walk(dir Handle, fn func(path string, e DirEntry) error) error {
	return c.walk(dir, "", fn)
}

func (c *Client) walk(dir Handle, prefix string, fn func(path string, e DirEntry) error) error {
	entries, err := c.ReadDirPlus(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	for _, e := range entries {
		if e.Name == "." || e.Name == ".." {
			continue
		}
		if err := fn(prefix+e.Name, e); err != nil {
			return err
		}
		if e.Attr.Type == Dir {
			if err := c.walk(e.Handle, prefix+e.Name+"/", fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// Types of files.
const (
	File = 1
	Dir  = 2
	Link = 5
)
