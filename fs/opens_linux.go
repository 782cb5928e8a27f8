package fs

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// opensFile is a file in memory that has the opens that are counted (see passedFiles). A server must know them when it
// takes a mount over: while a file is open, the kernel takes no other backing for it.
//
//	32 bytes for each: node (0 where it is closed), number of the request that opened it, generation (32 bits), backing
//	(32 bits; 0 where the server answers), 8 bytes 0
//
// None of them lies on two pages, so each is written whole whenever a server is killed. It is written
// before the answer to an open: a request that is sent again, because the answer did not come, is known by its number.
type opensFile struct {
	fd int

	mu         sync.Mutex
	opens      []keptOpen
	free       []int
	generation uint32
}

type keptOpen struct {
	node, unique uint64
	generation   uint32
	backing      int32
}

const (
	openSize = 32
	// keptHandle marks the handles of opens that are kept: below it are the index (31 bits) and the
	// generation, so that a release that is sent again ends no other open.
	keptHandle = 1 << 63
	// maxOpens bounds the number of opens that are read from a kept file. No system has so many.
	maxOpens = 1 << 20
	// resentBit is set in the numbers of requests that the kernel sends again.
	resentBit = 1 << 63
)

func newOpensFile() (*opensFile, error) {
	fd, err := unix.MemfdCreate("tensorfs opens", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	return &opensFile{fd: fd}, nil
}

// openOpensFile reads what another server wrote. The descriptor is its own.
func openOpensFile(fd int) (*opensFile, error) {
	f := &opensFile{fd: fd}
	for buf := make([]byte, 4096); ; {
		n, err := unix.Pread(fd, buf, int64(len(f.opens))*openSize)
		if err != nil {
			return nil, err
		}
		if n < openSize {
			return f, nil
		}
		if len(f.opens) >= maxOpens {
			return nil, errNoState
		}
		for b := buf[:n/openSize*openSize]; len(b) > 0; b = b[openSize:] {
			o := keptOpen{
				binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:]), int32(binary.LittleEndian.Uint32(b[20:])),
			}
			if o.node == 0 {
				f.free = append(f.free, len(f.opens))
			}
			f.generation = max(f.generation, o.generation)
			f.opens = append(f.opens, o)
		}
	}
}

func (f *opensFile) write(i int) error {
	o := &f.opens[i]
	b := binary.LittleEndian.AppendUint64(nil, o.node)
	b = binary.LittleEndian.AppendUint64(b, o.unique)
	b = binary.LittleEndian.AppendUint32(b, o.generation)
	b = binary.LittleEndian.AppendUint32(b, uint32(o.backing))
	b = binary.LittleEndian.AppendUint64(b, 0)
	_, err := unix.Pwrite(f.fd, b, int64(i)*openSize)
	return err
}

// add notes an open and returns its handle. again reports that the request was sent again,
// and its open is noted already.
func (f *opensFile) add(node, unique uint64, backing int32) (handle uint64, again bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unique &^= resentBit
	for i := range f.opens { // few files are open at a time
		if o := &f.opens[i]; o.node == node && o.unique == unique {
			return f.handle(i), true, nil
		}
	}
	var i int
	if n := len(f.free); n > 0 {
		i, f.free = f.free[n-1], f.free[:n-1]
	} else {
		i = len(f.opens)
		f.opens = append(f.opens, keptOpen{})
	}
	f.generation++
	f.opens[i] = keptOpen{node, unique, f.generation, backing}
	if err := f.write(i); err != nil {
		f.opens[i].node = 0
		f.free = append(f.free, i)
		return 0, false, err
	}
	return f.handle(i), false, nil
}

func (f *opensFile) handle(i int) uint64 {
	return keptHandle | uint64(i)<<32 | uint64(f.opens[i].generation)
}

// remove forgets an open, and reports whether it was there. Its backing stays, for the
// search for backings that were not unregistered.
func (f *opensFile) remove(handle uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := int(handle &^ keptHandle >> 32)
	if handle&keptHandle == 0 || i >= len(f.opens) || f.opens[i].node == 0 || f.opens[i].generation != uint32(handle) {
		return false
	}
	f.opens[i].node = 0
	_ = f.write(i) // it was written before, so there is room
	f.free = append(f.free, i)
	return true
}

// maxUnnoted is more than the backings that a server may have registered and not noted when it was killed: one
// for each thread.
const maxUnnoted = 64

// resume goes on with the opens of another server, and unregisters unused backings. Numbers
// of backings rise, so a number above all noted ones belongs to an open that was never
// answered.
func (s *passedFiles) resume(f *opensFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = f
	used, highest := map[int32]bool{}, int32(0)
	for _, k := range f.opens {
		highest = max(highest, k.backing)
		if k.node == 0 {
			continue
		}
		used[k.backing] = true
		o := s.open[k.node]
		if o == nil {
			o = &openFile{backing: k.backing}
			if k.backing != 0 {
				o.way = stored
			}
			s.open[k.node] = o
		}
		o.opens++
	}
	for _, k := range f.opens {
		if k.node == 0 && k.backing != 0 && !used[k.backing] {
			s.kernel.unregister(k.backing)
		}
	}
	for i := range int32(maxUnnoted) {
		s.kernel.unregister(highest + 1 + i)
	}
}
