// Package erofs lays out files side by side as an image of an EROFS file system, the
// kernel's own read-only one. The image is not stored: its metadata is computed when it is
// read, and the files' bytes come from their owner.
//
//	block 0          the superblock, at byte 1024
//	inodes           64 bytes each: the directory, then every file
//	the directory    a block has the same number of names everywhere, so a file's place in it is known
//	nothing          up to 1 MiB
//	the files        each begins with a block, and is one piece
//	nothing          1 MiB
//
// The layout follows the kernel's fs/erofs/erofs_fs.h: extended inodes, plain data, no
// feature added to kernels since 2019.
package erofs

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// Block is the unit of the image. It is a page of most machines; a kernel with larger pages takes it too.
const Block = 4096

const (
	superblockAt = 1024
	magic        = 0xE0F5E1E2
	slot         = 32       // in which inodes are counted
	inodeBytes   = 2 * slot // of an extended inode
	rootInode    = 2        // the first inode's number: 0 is not one
	firstInode   = 4
	firstMeta    = 1 // block of the inodes

	extendedPlain = 1 // i_format: an extended inode whose data are one piece
	direntBytes   = 12
	nameBytes     = 8
	names         = Block / (direntBytes + nameBytes) // in a block of the directory
	dots          = 2                                 // the names "." and ".."

	regular, directory = 1, 2 // file types of names
)

// margin is how many blocks at least come before the bytes of files and after them. An image may be on a block device, and
// programs that find out what such a device has (udev's blkid) read its beginning and its end: no file is to be read for that.
const margin = 1 << 20 / Block

// maxBlock bounds the numbers of blocks, which have 32 bits: 16 TiB.
const maxBlock = 1<<32 - 1

// Layout is where files of some sizes are in an image.
type Layout struct {
	sizes []int64
	first []uint32 // the first block of each file
	dir   uint32   // the first block of the directory
	data  uint32   // the first block that may be of a file
	end   uint32
}

// New lays out files by their sizes in bytes. It returns nil if they are too large for one
// image.
func New(sizes []int64) *Layout {
	l := &Layout{sizes: sizes, first: make([]uint32, len(sizes))}
	inodes := blocks(int64(firstInode*slot) + int64(len(sizes))*inodeBytes)
	l.dir = uint32(firstMeta + inodes)
	l.data = max(margin, l.dir+uint32((len(sizes)+dots+names-1)/names))
	at := int64(l.data)
	for i, size := range sizes {
		l.first[i] = uint32(at)
		at += blocks(size)
		if size < 0 || at+margin > maxBlock {
			return nil
		}
	}
	l.end = uint32(at + margin)
	return l
}

func blocks(size int64) int64 { return size/Block + min(1, size%Block) }

// Size returns the length of the image in bytes.
func (l *Layout) Size() int64 { return int64(l.end) * Block }

// Name returns the name of file i in the image.
func Name(i int) string { return fmt.Sprintf("%0*x", nameBytes, i) }

// Read fills p with what the image has at off. read gets the parts that are bytes of files, one by one. An
// error of it ends the call.
func (l *Layout) Read(p []byte, off int64, read func(file int, p []byte, off int64) error) error {
	for len(p) > 0 {
		block := off / Block
		if block < int64(l.data) {
			var b [Block]byte
			l.describe(b[:], uint32(block))
			n := copy(p, b[off%Block:])
			p, off = p[n:], off+int64(n)
			continue
		}
		n, err := l.file(p, off, read)
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// File returns the file that all of [off, off+n) belongs to, and where in it off is.
func (l *Layout) File(off, n int64) (i int, at int64, ok bool) {
	if off < int64(l.data)*Block || len(l.first) == 0 {
		return 0, 0, false
	}
	i = l.at(off)
	at = off - int64(l.first[i])*Block
	return i, at, at+n <= l.sizes[i]
}

// at returns the file that begins at off or is the last before it. Files of no bytes begin where
// the next one does: the last one that begins there has the bytes.
func (l *Layout) at(off int64) int {
	return sort.Search(len(l.first), func(i int) bool { return int64(l.first[i])*Block > off }) - 1
}

// file reads from one file or from what is after its end, and returns how many bytes.
func (l *Layout) file(p []byte, off int64, read func(int, []byte, int64) error) (int, error) {
	i := l.at(off)
	start, next := int64(l.first[i])*Block, l.Size()
	if i+1 < len(l.first) {
		next = int64(l.first[i+1]) * Block
	}
	if rest := start + l.sizes[i] - off; rest > 0 {
		p = p[:min(int64(len(p)), rest)]
		return len(p), read(i, p, off-start)
	}
	if next > off { // else after the end of the image
		p = p[:min(int64(len(p)), next-off)]
	}
	clear(p)
	return len(p), nil
}

// describe fills a block of what comes before the files.
func (l *Layout) describe(b []byte, block uint32) {
	switch {
	case block >= l.dir:
		l.names(b, int(block-l.dir))
	case block >= firstMeta:
		for at := 0; at < Block; at += inodeBytes {
			nid := (int64(block-firstMeta)*Block + int64(at)) / slot
			if nid == rootInode {
				inode(b[at:], uint32(nid), 0o040755, l.dirBytes(), l.dir)
			} else if i := (nid - firstInode) / 2; nid >= firstInode && i < int64(len(l.sizes)) {
				inode(b[at:], uint32(nid), 0o100444, l.sizes[i], l.first[i])
			}
		}
	default:
		l.superblock(b[superblockAt:])
	}
}

func (l *Layout) superblock(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b, magic)
	b[12] = 12 // log2(Block)
	le.PutUint16(b[14:], rootInode)
	le.PutUint64(b[16:], uint64(len(l.sizes)+1))
	le.PutUint32(b[36:], l.end)
	le.PutUint32(b[40:], firstMeta)
}

func inode(b []byte, nid, mode uint32, size int64, block uint32) {
	le := binary.LittleEndian
	le.PutUint16(b, extendedPlain)
	le.PutUint16(b[4:], uint16(mode))
	le.PutUint64(b[8:], uint64(size))
	le.PutUint32(b[16:], block)
	le.PutUint32(b[20:], nid)
	le.PutUint32(b[44:], 1) // links
}

// dirBytes returns the length of the directory: its last block ends with the last name.
func (l *Layout) dirBytes() int64 {
	last := (len(l.sizes) + dots - 1) / names
	return int64(last)*Block + int64(len(l.sizes)+dots-last*names)*(direntBytes+nameBytes)
}

// names fills block k of the directory, in the order of the names: "." and ".." come before digits.
func (l *Layout) names(b []byte, k int) {
	le := binary.LittleEndian
	from, to := k*names, min((k+1)*names, len(l.sizes)+dots)
	at := max(0, to-from) * direntBytes // none after the directory
	for e := from; e < to; e++ {
		nid, name, kind := uint64(rootInode), "", byte(directory)
		if e < dots {
			name = [dots]string{".", ".."}[e]
		} else {
			nid, name, kind = uint64(firstInode+2*(e-dots)), Name(e-dots), regular
		}
		entry := b[(e-from)*direntBytes:]
		le.PutUint64(entry, nid)
		le.PutUint16(entry[8:], uint16(at))
		entry[10] = kind
		at += copy(b[at:], name)
	}
}
