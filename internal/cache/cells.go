package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// CellSize is the unit of what is local: a cell is local as a whole or not at all.
// The last cell of a file may be shorter.
const CellSize = 128 << 10

func cellsOf(size int64) int64 { return (size + CellSize - 1) / CellSize }

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// sumOf returns the state file's entry for a cell with these bytes: their CRC32C, with 1
// for a CRC32C of 0, because 0 marks an absent cell.
func sumOf(cell []byte) uint32 { return max(crc32.Checksum(cell, castagnoli()), 1) }

// errShort is the error that a file of an entry was truncated while in use.
var errShort = errors.New("a file of the entry is shorter than it was made")

// runCells is how many cells are looked at together.
const runCells = 64

// cellBuffers hold a cell each.
var cellBuffers = sync.Pool{New: func() any { return new([CellSize]byte) }}

func readFull(f *os.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return errShort
	}
	return err
}

// sums reads the state file's entries for the cells from first on.
func (d *disk) sums(list []uint32, first int64) error {
	var b [4 * runCells]byte
	for len(list) > 0 {
		n := min(len(list), runCells)
		if err := readFull(d.state, b[:4*n], headerSize+4*first); err != nil {
			return err
		}
		for i := range n {
			list[i] = binary.LittleEndian.Uint32(b[4*i:])
			if list[i] != 0 && d.isLost(first+int64(i)) {
				list[i] = 0
			}
		}
		list, first = list[n:], first+int64(n)
	}
	return nil
}

func (d *disk) setSums(list []uint32, first int64) error {
	b := make([]byte, 0, 4*runCells)
	for _, sum := range list {
		b = binary.LittleEndian.AppendUint32(b, sum)
	}
	_, err := d.state.WriteAt(b, headerSize+4*first)
	return err
}

// eachCell calls fn with the sum of each of the cells [first, end), until it returns false.
func (d *disk) eachCell(first, end int64, fn func(i int64, sum uint32) bool) error {
	var list [runCells]uint32
	for first < end {
		n := min(end-first, runCells)
		if err := d.sums(list[:n], first); err != nil {
			return err
		}
		for i, sum := range list[:n] {
			if !fn(first+int64(i), sum) {
				return nil
			}
		}
		first += n
	}
	return nil
}

// complete reports whether all cells are there.
func (d *disk) complete() (all bool, err error) {
	all = true
	err = d.eachCell(0, cellsOf(d.size), func(_ int64, sum uint32) bool { all = sum != 0; return all })
	return all, err
}

// isProven reports whether this process wrote a cell, or compared it with its sum.
func (d *disk) isProven(i int64) bool { return d.proven[i/64].Load()&(1<<(i%64)) != 0 }

func (d *disk) prove(i int64) { d.proven[i/64].Or(1 << (i % 64)) }

func (d *disk) isLost(i int64) bool {
	if !d.loses.Load() {
		return false
	}
	_, lost := d.lost.Load(i)
	return lost
}

// read reads what is here of the bytes from off on, and returns how many that are.
// What this process reads for the first time it reads as whole cells, whose sums it
// compares; a cell that is not what was stored is absent from then on.
func (d *disk) read(p []byte, off int64) (n int, err error) {
	if d.whole.Load() && d.isProvenAll(off, int64(len(p))) {
		if err := readFull(d.data, p, off); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	var list [runCells]uint32
	for n < len(p) {
		at := off + int64(n)
		first := at / CellSize
		sums := list[:min(cellsOf(off+int64(len(p)))-first, runCells)]
		if err := d.sums(sums, first); err != nil {
			return n, err
		}
		run := 0
		for run < len(sums) && sums[run] != 0 {
			run++
		}
		if run == 0 {
			return n, nil
		}
		got, err := d.readRun(p[n:min(int64(len(p)), (first+int64(run))*CellSize-off)], at, sums[:run])
		if n += got; got == 0 || err != nil {
			return n, err
		}
	}
	return n, nil
}

// isProvenAll is isProven for all cells with bytes of [off, off+n).
func (d *disk) isProvenAll(off, n int64) bool {
	for i := off / CellSize; i < cellsOf(off+n); i++ {
		if !d.isProven(i) {
			return false
		}
	}
	return true
}

// readRun is read for bytes of cells that are there with these sums.
func (d *disk) readRun(p []byte, off int64, sums []uint32) (int, error) {
	first, end := off/CellSize, off+int64(len(p))
	for k, sum := range sums { // cells that are only partly asked for
		i := first + int64(k)
		if d.isProven(i) || i*CellSize >= off && min((i+1)*CellSize, d.size) <= end {
			continue
		}
		ok, err := d.readProven(i, sum)
		if err != nil {
			return 0, err
		}
		if !ok {
			p = p[:max(i*CellSize-off, 0)]
			break
		}
	}
	if err := readFull(d.data, p, off); err != nil {
		return 0, err
	}
	for k, sum := range sums {
		i := first + int64(k)
		from := i*CellSize - off
		if from >= int64(len(p)) {
			break
		}
		if d.isProven(i) {
			continue
		}
		if sumOf(p[from:min(from+CellSize, int64(len(p)))]) != sum {
			return int(from), d.drop(i, sum)
		}
		d.prove(i)
	}
	return len(p), nil
}

// readProven compares a cell with its sum, and drops it where they differ.
func (d *disk) readProven(i int64, sum uint32) (ok bool, err error) {
	buf := cellBuffers.Get().(*[CellSize]byte)
	defer cellBuffers.Put(buf)
	b := buf[:min(CellSize, d.size-i*CellSize)]
	if err := readFull(d.data, b, i*CellSize); err != nil {
		return false, err
	}
	if sumOf(b) != sum {
		return false, d.drop(i, sum)
	}
	d.prove(i)
	return true, nil
}

// write stores the absent cells of p, and passes cells that cannot be stored to spill. An
// error means that storing failed; it does not tell which cells are local. A stored cell
// never changes, so its hash stays valid.
func (d *disk) write(p []byte, off int64, spill func(i int64)) error {
	sums := make([]uint32, 0, writeSize/CellSize)
	for at := 0; at < len(p); at += CellSize {
		sums = append(sums, sumOf(p[at:min(at+CellSize, len(p))]))
	}
	first := off / CellSize
	stored := false
	err := d.exclusively(func() error {
		have := make([]uint32, len(sums))
		if err := d.sums(have, first); err != nil {
			return err
		}
		for i := 0; i < len(sums); {
			n := i
			for n < len(sums) && have[n] == 0 && d.s.keeper.room(CellSize) {
				n++
			}
			if n == i {
				if have[i] == 0 {
					spill(first + int64(i))
				}
				i++
				continue
			}
			at := first + int64(i)
			if _, err := d.data.WriteAt(p[i*CellSize:min(n*CellSize, len(p))], at*CellSize); err != nil {
				return err
			}
			if err := d.setSums(sums[i:n], at); err != nil {
				return err
			}
			for ; i < n; i++ {
				d.prove(first + int64(i))
			}
			stored = true
		}
		return nil
	})
	if stored {
		d.wrote(off, off+int64(len(p)))
	}
	return err
}

// drop makes a cell absent that differs from the stored bytes, because the disk lost or
// changed it. If other processes have a whole entry open, they map its files. These are
// left unchanged, and the cell is absent only in this process.
func (d *disk) drop(i int64, sum uint32) error {
	d.s.log.Warn("the disk changed a cached file; a part of it is fetched again", "file", d.id.Source, "offset", i*CellSize)
	return d.exclusively(func() error {
		if d.lookWhole(); d.whole.Load() {
			if only, err := d.unmake(); !only {
				d.unwritten.Store(true)
				d.lost.Store(i, true)
				d.loses.Store(true)
				d.whole.Store(false)
				return err
			}
		}
		var now [1]uint32
		if err := d.sums(now[:], i); err != nil || now[0] != sum {
			return err // another was faster
		}
		return errors.Join(d.setDropped(), d.setSums([]uint32{0}, i))
	})
}

// dropped returns how often cells became absent: a verifier that hashed them before notices.
func (d *disk) dropped() (uint32, error) {
	var b [4]byte
	err := readFull(d.state, b[:], droppedAt)
	return binary.LittleEndian.Uint32(b[:]), err
}

func (d *disk) setDropped() error {
	n, err := d.dropped()
	if err != nil {
		return err
	}
	_, err = d.state.WriteAt(binary.LittleEndian.AppendUint32(nil, n+1), droppedAt)
	return err
}
