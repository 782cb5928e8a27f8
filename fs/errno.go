package fs

import (
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// errno turns an error of reading into the error number that the reader gets. A changed
// model, a lost page and an undecodable file are all EIO: the promised bytes are not
// available. For a model on a server the number is more specific: another version, no
// permission, no answer in time.
func errno(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	for _, no := range []syscall.Errno{syscall.ESTALE, syscall.EACCES, syscall.ETIMEDOUT, syscall.ENOENT} {
		if errors.Is(err, no) {
			return fuse.Status(no)
		}
	}
	if errors.Is(err, iofs.ErrNotExist) {
		return fuse.ENOENT
	}
	return fuse.EIO
}

// failed logs a failed read and returns its errno.
func (f *rawFS) failed(t *served, id uint64, off int64, err error) fuse.Status {
	if t.slot != nil && errors.Is(err, tensorfs.ErrChanged) {
		f.library.changed(t.slot, err)
		return fuse.Status(syscall.ESTALE) // what its name leads to can be read
	}
	f.Failed(t.node|id, t.at(id), off, err)
	st := errno(err)
	f.counter.hasFailed(st)
	return st
}
