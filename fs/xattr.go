package fs

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// userSpace is the namespace of the attributes that this file system serves.
const userSpace = "user."

// maxAttr keeps values below the 64 KiB that the kernel allows.
const maxAttr = 48 << 10

// rootAttrs are the attributes of the root by which a server tells how it is, as
// mounts.Ask reads them. Every other node answers for them too, and does not list them:
// mount --bind makes any directory the root of a mount. Their values are made when they
// are asked for.
func (f *rawFS) rootAttrs() []rootAttr {
	attrs := []rootAttr{
		{"pid", func() []byte { return strconv.AppendInt(nil, int64(os.Getpid()), 10) }},
		{"health", func() []byte { return f.checkHealth().value() }},
	}
	if f.hot != nil {
		attrs = append(attrs, rootAttr{"hot", func() []byte { return f.hot.status(f.pathOf).value() }})
	}
	if f.library != nil {
		attrs = append(attrs, rootAttr{"library", func() []byte { return f.library.status().value() }})
	}
	if f.opts.Warm != nil {
		attrs = append(attrs, rootAttr{"warm", func() []byte { return fit(f.opts.Warm(), nil) }})
	}
	return attrs
}

func (f *rawFS) checkHealth() Health {
	return f.Health(f.opts.Check, f.opts.Unwatched, f.opts.FsName)
}

// status returns what the attributes of the root say.
func (f *rawFS) status() Status {
	s := Status{PID: os.Getpid(), Health: f.checkHealth()}
	if f.hot != nil {
		hot := f.hot.status(f.pathOf)
		s.Hot = &hot
	}
	if f.library != nil {
		library := f.library.status()
		s.Library = &library
	}
	if f.opts.Warm != nil {
		warm := f.opts.Warm()
		s.Warm = &warm
	}
	return s
}

type rootAttr struct {
	name  string // without mounts.AttrPrefix
	value func() []byte
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
	for _, a := range f.rootAttrs() {
		if mounts.AttrPrefix+a.name == name {
			return reply(dest, a.value())
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
		for _, a := range f.rootAttrs() {
			names = append(append(names, mounts.AttrPrefix+a.name...), 0)
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

// fit returns a value as JSON. As long as it is too large for an attribute, shrink leaves
// something out.
func fit(v any, shrink func()) []byte {
	for {
		b, err := json.Marshal(v)
		if err != nil || len(b) <= maxAttr { // text, numbers and times always marshal
			return b
		}
		shrink()
	}
}

// value is the Health, with the last faults if not all fit.
func (h Health) value() []byte {
	return fit(&h, func() {
		switch {
		case len(h.Warnings) > 0:
			h.Warnings = h.Warnings[(len(h.Warnings)+1)/2:]
		case len(h.Errors) > 0:
			h.Errors = h.Errors[(len(h.Errors)+1)/2:]
		default:
			h.Changed = h.Changed[:len(h.Changed)/2]
		}
	})
}

// value is the HotStatus, with as many files as fit.
func (s HotStatus) value() []byte {
	all := len(s.Files)
	return fit(&s, func() {
		s.Files = s.Files[:len(s.Files)*3/4]
		s.Omitted = all - len(s.Files)
	})
}

// value is the LibraryStatus, with as many names as fit.
func (s LibraryStatus) value() []byte {
	all := len(s.Open)
	return fit(&s, func() {
		s.Open = s.Open[:len(s.Open)*3/4]
		s.Omitted = all - len(s.Open)
	})
}
