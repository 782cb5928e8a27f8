package cache

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// errShort is a data file that was cut.
var errShort = errors.New("the data file is shorter than its state says")

// readCells is how many cells are read at a time.
const readCells = 64

// read reads local bytes. gens, if not nil, gets the byte of each cell that was
// read, at its number.
func (d *disk) read(p []byte, off int64, gens []byte) error {
	if d.whole.Load() && gens == nil { // never swept
		return d.readData(p, off)
	}
	for len(p) > 0 {
		n := min(int64(len(p)), readCells*CellSize-off%CellSize)
		if err := d.readPiece(p[:n], off, gens); err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

func (d *disk) readData(p []byte, off int64) error {
	n, err := d.data.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		return errShort
	}
	return err
}

func (d *disk) readPiece(p []byte, off int64, gens []byte) error {
	first, last := off/CellSize, (off+int64(len(p))-1)/CellSize
	return d.cells.guard(func() error {
		var seen [readCells]byte
		epoch := d.cells.epoch()
		for i := first; i <= last; i++ {
			b := d.cells.use(i)
			if !isLocal(b) {
				return ErrAbsent
			}
			seen[i-first] = b
		}
		if err := d.readData(p, off); err != nil {
			return err
		}
		for i := first; i <= last; i++ {
			b := d.cells.load(i)
			if !isLocal(b) || (b^seen[i-first])&generationMask != 0 {
				return ErrAbsent
			}
			if gens != nil {
				gens[i] = b
			}
		}
		if !d.cells.comparable(epoch) {
			return ErrAbsent
		}
		return nil
	})
}

// has reports whether a cell is local here.
func (d *disk) has(i int64) (ok bool) {
	err := d.cells.guard(func() error { ok = isLocal(d.cells.load(i)); return nil })
	return ok && err == nil
}

// write stores the cells of p that are absent, and gives those that cannot be
// stored to spill. An error says that storing failed, and nothing of what is
// local now.
func (d *disk) write(p []byte, off int64, spill func(i int64)) error {
	ok, err := d.writers.enter(d.data)
	if err != nil {
		return err
	}
	if ok {
		defer d.writers.leave(d.data)
	}
	first := off / CellSize
	end := first + cellsOf(int64(len(p)))
	stored := int64(0)
	err = d.cells.guard(func() error {
		for i := first; i < end; {
			b := d.cells.load(i)
			if isLocal(b) {
				i++
				continue
			}
			if b&stateMask == swept || !ok {
				spill(i)
				i++
				continue
			}
			n, err := d.writeRun(p, off, i, end, spill)
			if err != nil {
				return err
			}
			stored += n * CellSize
			i += max(n, 1)
		}
		return nil
	})
	d.wrote(stored)
	if err == nil && stored > 0 && d.verify != nil {
		d.follow(off, off+int64(len(p)))
	}
	return err
}

// writeRun stores the absent cells from i on, up to one that is not, and returns
// how many that are. The first is given to spill where there is no room.
func (d *disk) writeRun(p []byte, off, i, end int64, spill func(i int64)) (n int64, err error) {
	var seen [readCells]byte
	epoch := d.cells.epoch()
	for n < readCells && i+n < end {
		b := d.cells.load(i + n)
		if b&stateMask != absent || !d.s.keeper.room(CellSize) {
			break
		}
		seen[n] = b
		n++
	}
	if n == 0 {
		spill(i)
		return 0, nil
	}
	from := i*CellSize - off
	to := min(from+n*CellSize, int64(len(p)))
	if _, err := d.data.WriteAt(p[from:to], i*CellSize); err != nil {
		return 0, err
	}
	for k := range n {
		// It is not stored where a sweep came between, and need not be where another
		// stored it.
		stored := d.cells.comparable(epoch) && d.cells.swap(i+k, seen[k], seen[k]|present|used)
		if !stored && !isLocal(d.cells.load(i+k)) {
			spill(i + k)
		}
	}
	return n, nil
}

// cannotStore takes note of a disk that takes nothing. One that is full may have
// room later. The keeper, who is told of that, may find the same: it is said once.
func (d *disk) cannotStore(err error) {
	d.s.logOnce("memory", "the cache cannot store; it goes on in memory", err)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		d.s.keeper.wake()
		return
	}
	d.unwritten.Store(true)
}

// writers are those who write to the data file of an entry now. They have it
// locked between processes: who makes an entry whole has to know that nobody
// writes to it any more, because mappings of it tell writing from changing by
// nothing.
type writers struct {
	mu sync.Mutex
	n  int
}

// enter lets one write, unless the entry is being made whole by another process.
func (w *writers) enter(data *os.File) (ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n == 0 {
		if ok, err := flock(data, unix.LOCK_SH); !ok {
			return false, err
		}
	}
	w.n++
	return true, nil
}

func (w *writers) leave(data *os.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 {
		unlock(data)
	}
}

// without runs fn while nobody writes. ok is false where somebody does.
func (w *writers) without(data *os.File, fn func() error) (ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n > 0 {
		return false, nil
	}
	if ok, err := flock(data, unix.LOCK_EX); !ok {
		return false, err
	}
	defer unlock(data)
	return true, fn()
}

// reopen opens the data for reading, if they still have their name.
func (d *disk) reopen() (*os.File, error) {
	path := filepath.Join(d.place(), dataName)
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	a, aerr := f.Stat()
	b, berr := d.data.Stat()
	if aerr != nil || berr != nil || !os.SameFile(a, b) {
		f.Close()
		return nil, fmt.Errorf("%s: it was replaced", path)
	}
	return f, nil
}

// remove empties all cells, for other processes that have the entry open, and
// removes its files if they are still those of its name.
func (d *disk) remove() error {
	err := d.cells.guard(func() error {
		d.cells.begin()
		for i := range d.cells.n {
			d.cells.change(i, func(b byte) (byte, bool) { return emptied(b), isLocal(b) }) // what is being swept is the sweep's
		}
		return nil
	})
	dir := d.place()
	linked, lerr := sameFile(d.state, filepath.Join(dir, stateName))
	if linked {
		lerr = removeDir(d.s.path(tmpDir), dir)
	}
	return errors.Join(err, lerr)
}
