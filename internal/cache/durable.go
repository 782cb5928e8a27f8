package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

const (
	// syncAfter and syncBytes are when what was written is made durable: nothing
	// that is read or written waits for it.
	syncAfter = 5 * time.Second
	syncBytes = 64 << 20
)

// wrote takes note of bytes that are not durable yet.
func (d *disk) wrote(n int64) {
	if n == 0 {
		return
	}
	d.bg.Lock()
	defer d.bg.Unlock()
	before := d.dirty
	d.dirty += n
	switch {
	case d.closed: // close syncs
	case d.timer == nil:
		d.timer = time.AfterFunc(syncAfter, d.late)
	case before < syncBytes && d.dirty >= syncBytes:
		d.timer.Reset(0)
	}
}

// late is the end of a batch.
func (d *disk) late() {
	d.bg.Lock()
	d.timer, d.dirty = nil, 0
	d.bg.Unlock()
	d.run(func() { d.settle(true) })
}

// settle makes what was written durable, and the entry whole when nothing is
// missing. Where long is true, a file may be read for that.
func (d *disk) settle(long bool) {
	if d.dead.Load() {
		return
	}
	err := d.sync()
	if err == nil && !d.whole.Load() && d.complete() {
		err = d.verifyWhole(d.ctx, func(left int64) bool { return left <= 0 || long && d.size <= verifyAlone })
		if errors.Is(err, tensorfs.ErrChanged) { // nobody else may hear of it
			d.s.log.Error("a cached file is forgotten", "error", err.Error())
		}
	}
	if err != nil && !errors.Is(err, ErrAbsent) && !errors.Is(err, tensorfs.ErrChanged) && d.ctx.Err() == nil {
		d.entry.abandon(d, err)
	}
}

// complete reports whether all cells are durable.
func (d *disk) complete() (all bool) {
	err := d.cells.guard(func() error { all = d.cells.allDurable(); return nil })
	return all && err == nil
}

// sync makes every cell durable that is present now.
//
//	present 1  ->  fdatasync(data)  ->  2, unless it was swept  ->  sync(state)
func (d *disk) sync() error {
	d.syncing.Lock()
	defer d.syncing.Unlock()
	var b batch
	err := d.cells.guard(func() error { b = d.cells.present(); return nil })
	if err != nil || len(b.cells) == 0 {
		return err
	}
	err = d.anchor()
	if errors.Is(err, fs.ErrNotExist) { // somebody removed the directory: nothing here outlives this use
		d.cannotStore(err)
		return nil
	}
	if err == nil {
		err = syncData(d.data)
	}
	if err != nil {
		// The kernel may have given up pages that it could not write: what they
		// held is not to be relied on.
		d.cannotStore(err)
	}
	return d.cells.guard(func() error {
		d.cells.synced(b, err == nil)
		return d.cells.flush()
	})
}

// batch is cells as they were at some time.
type batch struct {
	epoch uint32
	cells []struct {
		i int64
		b byte
	}
}

// present returns the cells that are present and not durable.
func (c *cells) present() (p batch) {
	p.epoch = c.epoch()
	c.all(func(i int64, b byte) bool {
		if b&stateMask == present {
			p.cells = append(p.cells, struct {
				i int64
				b byte
			}{i, b})
		}
		return true
	})
	return p
}

// synced makes those cells durable that are still what they were, or empties them
// where their bytes may be lost.
func (c *cells) synced(p batch, ok bool) {
	if !ok {
		c.begin()
	}
	for _, s := range p.cells {
		c.change(s.i, func(b byte) (byte, bool) {
			next := b&^stateMask | durable
			if !ok {
				next = emptied(b)
			}
			return next, b&stateMask == present && (b^s.b)&generationMask == 0 && (c.comparable(p.epoch) || !ok)
		})
	}
}

// anchor makes the entry's names durable: before its first cell.
func (d *disk) anchor() error {
	if d.anchored {
		return nil
	}
	dir := d.place()
	for _, path := range []string{filepath.Join(dir, metaName), dir, filepath.Dir(dir), d.s.path(filesDir)} {
		if err := syncPath(path); err != nil {
			return err
		}
	}
	d.anchored = true
	return nil
}

func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // without waiting for the other end of a FIFO
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lookInterval is how often isWhole looks for another process's mark.
const lookInterval = time.Second

// isWhole reports whether the entry is whole.
func (d *disk) isWhole() bool {
	if d.whole.Load() {
		return true
	}
	now, last := time.Now().UnixNano(), d.looked.Load()
	if now-last < int64(lookInterval) || !d.looked.CompareAndSwap(last, now) {
		return false
	}
	return d.cells.guard(func() error { d.lookWhole(); return nil }) == nil && d.whole.Load()
}

// lookWhole looks for the mark of a whole entry, which says what digest was
// verified. One that cells contradict does not count.
func (d *disk) lookWhole() {
	path := filepath.Join(d.place(), wholeName)
	text, err := readRegular(path, maxMeta)
	if errors.Is(err, errNotRegular) {
		_ = os.RemoveAll(path) // it is in the way of the mark; what cannot be removed is none
	}
	if err == nil && string(text) == d.entryDigest()+"\n" && d.cells.allDurable() {
		d.whole.Store(true)
	}
}

func (d *disk) entryDigest() string {
	if d.verify == nil {
		return ""
	}
	return d.verify.digest
}

// errStale says that cells were filled again after they were hashed.
var errStale = errors.New("the cells changed while they were verified")

// makeWhole marks the entry as whole if all cells are durable and ok says so. No
// other process sweeps or writes to it meanwhile, and none does afterwards. wait
// waits between attempts, or says no.
func (d *disk) makeWhole(ok func(i int64, b byte) bool, wait func() bool) error {
	for {
		done, err := d.writers.without(d.data, func() error {
			lock, free, err := lockFile(d.s.path(lockName), unix.LOCK_SH)
			if err != nil {
				return err
			}
			if !free {
				return unix.EWOULDBLOCK
			}
			defer lock.Close()
			var all bool
			if err := d.cells.guard(func() error {
				all = d.cells.all(func(i int64, b byte) bool { return b&stateMask == durable && ok(i, b) })
				return nil
			}); err != nil {
				return err
			}
			if !all {
				return errStale
			}
			dir := d.place()
			if err := writeFile(d.s.path(tmpDir), filepath.Join(dir, wholeName), []byte(d.entryDigest()+"\n")); err != nil {
				return err
			}
			if err := syncPath(dir); err != nil {
				return err
			}
			d.whole.Store(true)
			d.share()
			return nil
		})
		if done && err != unix.EWOULDBLOCK || err != nil && !done {
			return err
		}
		if !wait() {
			return unix.EWOULDBLOCK
		}
	}
}
