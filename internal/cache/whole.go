package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// settleAfter is how long after bytes came it is looked whether all are there.
const settleAfter = 5 * time.Second

// wrote takes note of bytes [from, to) that were stored: they are hashed if the file is
// being filled front to back, and may be the last.
func (d *disk) wrote(from, to int64) {
	if pos := d.verify.pos.Load(); d.verify.hash != nil && from <= pos && pos < to {
		d.run(func() { _ = d.hash(d.ctx) }) // as far as there are bytes; Verify finds what is wrong
	}
	d.bg.Lock()
	defer d.bg.Unlock()
	if !d.closed && d.timer == nil { // close settles
		d.timer = time.AfterFunc(settleAfter, d.late)
	}
}

// late is what comes settleAfter bytes came.
func (d *disk) late() {
	d.bg.Lock()
	d.timer = nil
	d.bg.Unlock()
	d.run(func() { d.finishIfComplete(true) })
}

// finishIfComplete makes the entry whole when nothing is missing. Where long is true, a file
// may be read for that.
func (d *disk) finishIfComplete(long bool) {
	if d.dead.Load() || d.whole.Load() {
		return
	}
	all, err := d.complete()
	if all && err == nil {
		err = d.verifyWhole(d.ctx, long && d.size <= verifyAlone)
		if errors.Is(err, tensorfs.ErrChanged) { // no caller may hear of it
			d.s.log.Error("a cached file is forgotten", "error", err.Error())
			return
		}
	}
	if err != nil && !errors.Is(err, ErrAbsent) && d.ctx.Err() == nil {
		d.entry.abandon(d, err)
	}
}

// lookInterval is how often isWhole looks for another process's mark.
const lookInterval = time.Second

// isWhole reports whether the entry is whole.
func (d *disk) isWhole() bool {
	if d.whole.Load() {
		return true
	}
	now, last := time.Now().UnixNano(), d.looked.Load()
	if now-last < int64(lookInterval) || d.loses.Load() || !d.looked.CompareAndSwap(last, now) {
		return false
	}
	d.lookWhole()
	return d.whole.Load()
}

// lookWhole looks for the mark of a whole entry, which holds the verified digest. A mark
// that cells contradict does not count.
func (d *disk) lookWhole() {
	path := filepath.Join(d.place(), wholeName)
	text, err := readRegular(path, maxMeta)
	if errors.Is(err, errNotRegular) {
		_ = os.RemoveAll(path) // it blocks the mark; if it cannot be removed, the entry has no mark
	}
	if err == nil && string(text) == d.id.Digest+"\n" {
		all, err := d.complete()
		d.whole.Store(all && err == nil)
	}
}

// errStale is the error that cells became absent after they were hashed.
var errStale = errors.New("the cells changed while they were verified")

// makeWhole durably marks the entry as whole if all cells are local. No process writes to
// it during the call or afterwards, and everything that was hashed is still there.
func (d *disk) makeWhole(v *verifier) error {
	return d.exclusively(func() error {
		now, err := d.dropped()
		if err != nil {
			return err
		}
		if all, err := d.complete(); err != nil || !all || v.hash != nil && now != v.dropped {
			return errors.Join(err, errStale)
		}
		dir := d.place()
		if err := errors.Join(syncData(d.data), syncData(d.state)); err != nil {
			return err
		}
		for _, path := range []string{filepath.Join(dir, metaName), filepath.Dir(dir), d.s.path(filesDir)} {
			if err := syncPath(path); err != nil {
				return err
			}
		}
		if err := writeFile(d.s.path(tmpDir), filepath.Join(dir, wholeName), []byte(d.id.Digest+"\n")); err != nil {
			return err
		}
		if err := syncPath(dir); err != nil {
			return err
		}
		d.whole.Store(true)
		d.share()
		return nil
	})
}

// unmake turns a whole entry back into one that belongs to its server. ok is false if other
// processes have it open. The caller holds it exclusively.
func (d *disk) unmake() (ok bool, err error) {
	if ok, err := flock(d.state, unix.LOCK_EX); !ok {
		return false, err
	}
	defer func() { _, _ = flock(d.state, unix.LOCK_SH) }() // it does no harm to a process that removed the entry in between
	if own, shared := d.s.dirs(d.id); own != shared && d.isAt(shared) {
		if err := d.s.move(shared, own); err != nil {
			return false, err
		}
	}
	if err := os.Remove(filepath.Join(d.place(), wholeName)); err != nil {
		return false, err
	}
	d.whole.Store(false)
	return true, nil
}

func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // without waiting for the other end of a FIFO
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// verifyWhole makes an entry whole whose cells are all local: verified if a digest is
// known. Bytes that are not hashed yet are read only if long is set.
func (d *disk) verifyWhole(ctx context.Context, long bool) error {
	v := d.verify
	if err := v.take(ctx); err != nil {
		return err
	}
	defer v.give()
	for range 3 {
		if v.hash != nil {
			if v.pos.Load() < d.size && !long {
				return nil
			}
			if err := d.advance(ctx); err != nil {
				return err
			}
			if err := d.entry.compare(v.hash); err != nil {
				return err
			}
		}
		if d.whole.Load() {
			return nil
		}
		switch err := d.makeWhole(v); {
		case errors.Is(err, errShort):
			return err
		case !errors.Is(err, errStale):
			return nil // it is what it was, and not whole
		}
		v.reset()
	}
	return nil // cells are lost as fast as it is read; the digest was right each time
}
