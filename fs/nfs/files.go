package nfs

import (
	"errors"
	"math"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

const (
	rootNumber = fs.Root
	// maxRead is the most that one READ gives: no more is taken by macOS.
	maxRead = 1 << 20
	// maxName is the longest name of a file.
	maxName = 255
)

// node is a file, a directory or a link of the tree.
type node struct {
	number uint64
	tensorfs.Entry
}

// neverIndex keeps Spotlight out of the tree: it looks for a file of that name. Nothing
// lists it. No tree has a node with that number.
var neverIndex = node{1 << 62, tensorfs.Entry{Name: ".metadata_never_index", Data: tensorfs.Bytes(nil)}}

// node reads a handle and returns its node. Those whom the file is not for are refused
// where they want more than attributes.
func (c *call) node(private bool) (node, uint32) {
	number, ok := c.handles.number(c.args.opaque(64))
	if !ok {
		return node{}, errBadHandle
	}
	c.conn.known.Store(true)
	if private && !c.allowed() {
		return node{}, errAccess
	}
	if number == neverIndex.number {
		return neverIndex, ok3
	}
	e, ok := c.tree.Entry(number)
	if !ok {
		return node{}, errStale
	}
	return node{number, e}, ok3
}

// allowed reports whether the files are for the user.
func (c *call) allowed() bool {
	return !c.opts.OwnerOnly || c.user.known && (c.user.uid == c.opts.UID || c.user.uid == 0)
}

// handle appends a handle.
func (c *call) handle(number uint64) {
	c.out.uint32(handleBytes)
	*c.out = c.handles.put(*c.out, number)
}

// What a node is: its type in NFS, and its mode.
const (
	typeFile, fileMode = 1, 0o444
	typeDir, dirMode   = 2, 0o555
	typeLink, linkMode = 5, 0o777
)

// block is the unit of sizes on disk.
const block = 4096

// attr appends the attributes of a node. Only here is a file asked for its size, which
// may mean rendering it.
func (c *call) attr(n node) {
	kind, mode, size := uint32(typeLink), uint32(linkMode), uint64(len(n.Link))
	switch {
	case n.Dir != nil:
		kind, mode, size = typeDir, dirMode, block
	case n.Data != nil:
		kind, mode, size = typeFile, fileMode, uint64(n.Data.Size())
	}
	o := &c.opts
	c.out.uint32(kind, mode, c.tree.Links(n.number, &n.Entry), o.UID, o.GID)
	c.out.uint64(size, (size+block-1)/block*block, 0, o.FSID, n.number)
	for range 3 { // atime, mtime, ctime
		c.time(o.ModTime)
	}
}

func (c *call) time(t time.Time) {
	seconds := min(max(t.Unix(), 0), math.MaxUint32)
	c.out.uint32(uint32(seconds), uint32(t.Nanosecond()))
}

// postAttr appends attributes that might be left out.
func (c *call) postAttr(n node) {
	c.out.bool(true)
	c.attr(n)
}

func (c *call) getAttr() uint32 {
	n, status := c.node(false)
	if status == ok3 {
		c.attr(n)
	}
	return status
}

// lookupIn finds a name in a directory.
func (c *call) lookupIn(in node, name string) (node, uint32) {
	if in.Dir == nil {
		return node{}, errNotDir
	}
	if len(name) > maxName {
		return node{}, errNameTooLong
	}
	d, ok := c.tree.Dir(in.number)
	if !ok {
		return node{}, errNotDir
	}
	switch name {
	case ".":
		return in, ok3
	case "..":
		e, _ := c.tree.Entry(d.Parent)
		return node{d.Parent, e}, ok3
	}
	if i, ok := tensorfs.Lookup(d.Dir, name); ok {
		return node{d.First + uint64(i), d.Entry(i)}, ok3
	}
	if in.number == rootNumber && name == neverIndex.Name {
		return neverIndex, ok3
	}
	return node{}, errNoEnt
}

func (c *call) lookup() uint32 {
	in, status := c.node(true)
	name := c.args.opaque(maxRecord)
	if status != ok3 {
		return status
	}
	n, status := c.lookupIn(in, string(name))
	if status != ok3 {
		return status
	}
	c.handle(n.number)
	c.postAttr(n)
	c.postAttr(in)
	return ok3
}

// All permissions that ACCESS may grant.
const (
	accessRead    = 1
	accessLookup  = 2
	accessExecute = 0x20
)

func (c *call) access() uint32 {
	n, status := c.node(false)
	wanted := c.args.uint32()
	if status != ok3 {
		return status
	}
	var allowed uint32
	if c.allowed() {
		allowed = accessRead
		if n.Dir != nil {
			allowed |= accessLookup | accessExecute
		}
	}
	c.postAttr(n)
	c.out.uint32(wanted & allowed)
	return ok3
}

func (c *call) readLink() uint32 {
	n, status := c.node(true)
	if status != ok3 {
		return status
	}
	if n.Link == "" {
		return errInval
	}
	c.postAttr(n)
	c.out.text(n.Link)
	return ok3
}

// read reads into a payload. After the end there are 0 bytes.
func (c *call) read() uint32 {
	n, status := c.node(true)
	off, count := c.args.uint64(), c.args.uint32()
	switch {
	case status != ok3 || c.args.bad:
		return status
	case n.Dir != nil:
		return errIsDir
	case n.Data == nil:
		return errInval
	}
	size := uint64(n.Data.Size())
	rest := size - min(off, size)
	got := int(min(uint64(count), maxRead, rest))
	if got > 0 {
		err := c.re.take(c.conn)
		if err == nil {
			err = tensorfs.ReadFullContext(c.ctx, n.Data, c.re.payload[:got], int64(off))
		}
		if err != nil {
			return c.failed(n, int64(off), err)
		}
		c.re.n = got + copy(c.re.payload[got:], zeros[:padding(got)])
	}
	c.postAttr(n)
	c.out.uint32(uint32(got))
	c.out.bool(uint64(got) == rest)
	c.out.uint32(uint32(got))
	return ok3
}

// statuses are errors of reading that are more specific than missing bytes. As with FUSE,
// models on servers have such errors.
var statuses = []struct {
	err    error
	status uint32
}{
	{syscall.ESTALE, errStale},
	{syscall.EACCES, errAccess},
}

// failed logs a read that failed, unless the client no longer waits for it.
func (c *call) failed(n node, off int64, err error) uint32 {
	if c.ctx.Err() != nil {
		return errIO
	}
	c.faults.Failed(n.number, c.tree.Path(n.number), off, err)
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return errIO
}
