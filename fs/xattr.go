package fs

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// userSpace is the namespace of the attributes that this file system serves.
const userSpace = "user."

// maxAttr keeps values below the 64 KiB that the kernel allows.
const maxAttr = 48 << 10

// rootAttr returns the value of an attribute of the root, or nil. By these attributes,
// named in mounts.Attrs, a server tells how it is. Every other node answers for them too,
// and does not list them: mount --bind makes any directory the root of a mount.
func (f *rawFS) rootAttr(name string) any {
	switch {
	case name == "pid":
		return os.Getpid()
	case name == "health":
		return f.checkHealth()
	case name == "images":
		if n := f.passed.imaging(); n > 0 {
			return n
		}
	case name == "taken":
		if n := f.kept.takenOver(); n > 0 {
			return n
		}
	case name == "counts" && (f.counter != nil || f.opts.Traffic != nil):
		return f.counts()
	case name == "warm" && f.opts.Warm != nil:
		warm := f.opts.Warm()
		return &warm
	case name == "library" && f.library != nil:
		return f.library.status()
	}
	return nil
}

func (f *rawFS) checkHealth() *Health {
	h := f.Health(f.opts.Check, f.opts.Unwatched, f.opts.FsName)
	return &h
}

// status returns what the attributes of the root say.
func (f *rawFS) status() Status {
	s := Status{PID: os.Getpid(), Health: *f.checkHealth()}
	s.Images, _ = f.rootAttr("images").(int)
	s.Taken, _ = f.rootAttr("taken").(int)
	s.Counts = f.counts()
	s.Warm, _ = f.rootAttr("warm").(*WarmStatus)
	s.Library, _ = f.rootAttr("library").(*LibraryStatus)
	return s
}

// xattrs returns the extended attributes of a node other than the root.
func (f *rawFS) xattrs(node uint64) ([]tensorfs.Attr, fuse.Status) {
	if f.library != nil && f.library.answers(node) {
		return nil, fuse.OK
	}
	t, id, st := f.enter(node)
	if !st.Ok() {
		return nil, st
	}
	defer f.leave(t)
	e, ok := t.get(id)
	if !ok {
		return nil, fuse.ENOENT
	}
	if e.Attrs == nil {
		return nil, fuse.OK
	}
	return e.Attrs(), fuse.OK
}

// GetXAttr returns the value of an extended attribute. Names outside user. are
// not supported rather than absent: ls asks for security labels and ACLs of
// every file and stops after the first such answer.
func (f *rawFS) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if !strings.HasPrefix(name, userSpace) {
		return 0, noForeignAttr
	}
	if short, ours := strings.CutPrefix(name, mounts.AttrPrefix); ours {
		if v := f.rootAttr(short); v != nil {
			return reply(dest, fit(v))
		}
	}
	if h.NodeId == fuse.FUSE_ROOT_ID {
		return 0, fuse.ENOATTR
	}
	attrs, st := f.xattrs(h.NodeId)
	if !st.Ok() {
		return 0, st
	}
	for _, a := range attrs {
		if a.Name == name {
			return reply(dest, a.Value)
		}
	}
	return 0, fuse.ENOATTR
}

// ListXAttr returns the names, each followed by a zero byte.
func (f *rawFS) ListXAttr(_ <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	var names []byte
	if h.NodeId == fuse.FUSE_ROOT_ID {
		for _, name := range mounts.Attrs {
			if f.rootAttr(name) != nil {
				names = append(append(names, mounts.AttrPrefix+name...), 0)
			}
		}
		return reply(dest, names)
	}
	attrs, st := f.xattrs(h.NodeId)
	if !st.Ok() {
		return 0, st
	}
	for _, a := range attrs {
		names = append(append(names, a.Name...), 0)
	}
	return reply(dest, names)
}

// reply copies a value. ERANGE with the size answers a buffer that is too
// small, the empty one of a caller that asks for the size included.
func reply(dest, value []byte) (uint32, fuse.Status) {
	if len(value) > len(dest) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}

// fit returns a value as JSON. As long as it is too large for an attribute, something is
// left out.
func fit(v any) []byte {
	for {
		b, err := json.Marshal(v)
		large, ok := v.(interface{ shrink() })
		if err != nil || len(b) <= maxAttr || !ok { // text, numbers and times always marshal
			return b
		}
		large.shrink()
	}
}

// shrink leaves the older faults out, then half of the files.
func (h *Health) shrink() {
	switch {
	case len(h.Warnings) > 0:
		h.Warnings = h.Warnings[(len(h.Warnings)+1)/2:]
	case len(h.Errors) > 0:
		h.Errors = h.Errors[(len(h.Errors)+1)/2:]
	default:
		h.Changed = h.Changed[:len(h.Changed)/2]
	}
}

// shrink leaves out some of the names.
func (s *LibraryStatus) shrink() {
	n := len(s.Open) * 3 / 4
	s.Omitted += len(s.Open) - n
	s.Open = s.Open[:n]
}
