package fs

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// userSpace is the namespace of the attributes that this file system serves.
const userSpace = "user."

// pidAttr names the attribute of the root that tells which process serves the
// mount. Any other node answers for it, too, and does not list it: the root of a mount
// that mount --bind has made is one. The kernel never caches attributes of this kind: an answer also proves
// that the process is alive.
const pidAttr = "user.tensorfs.pid"

// hotAttr names the attribute of the root that holds a HotStatus as JSON. It
// exists only if Options.Hot is set.
const hotAttr = "user.tensorfs.hot"

// warmAttr names the attribute of the root that holds a WarmStatus as JSON. It exists
// only with Options.Warm.
const warmAttr = "user.tensorfs.warm"

// healthAttr names the attribute of the root that holds a Health as JSON.
const healthAttr = "user.tensorfs.health"

// maxAttr keeps values below the 64 KiB that the kernel allows.
const maxAttr = 48 << 10

// libraryAttr names the attribute of the root that holds a LibraryStatus as JSON.
// It exists only in a library.
const libraryAttr = "user.tensorfs.library"

// rootAttrs are the attributes of the root. Their values are made when they are
// asked for.
func (f *rawFS) rootAttrs() []rootAttr {
	attrs := []rootAttr{
		{pidAttr, func() []byte { return strconv.AppendInt(nil, int64(os.Getpid()), 10) }},
		{healthAttr, func() []byte { return f.checkHealth().value() }},
	}
	if f.hot != nil {
		attrs = append(attrs, rootAttr{hotAttr, func() []byte { return hotValue(f.hot.status(f.pathOf)) }})
	}
	if f.library != nil {
		attrs = append(attrs, rootAttr{libraryAttr, func() []byte { return f.library.status().value() }})
	}
	if f.opts.Warm != nil {
		attrs = append(attrs, rootAttr{warmAttr, func() []byte { return f.opts.Warm().value() }})
	}
	return attrs
}

type rootAttr struct {
	name  string
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
		if a.name == name {
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
			names = append(append(names, a.name...), 0)
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

// hotValue is a status as JSON, with as many files as fit.
func hotValue(s HotStatus) []byte {
	bytes := 0
	for i, f := range s.Files {
		if bytes += len(f.Path)*2 + 80; bytes > maxAttr {
			s.Omitted, s.Files = len(s.Files)-i, s.Files[:i]
			break
		}
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil // numbers and valid names always marshal
	}
	return b
}
