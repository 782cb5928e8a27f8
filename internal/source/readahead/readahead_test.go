package readahead

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The section that is read: 100 MiB that begin at 1 MiB.
const (
	mib          = 1 << 20
	sectionStart = 1 * mib
	sectionEnd   = 101 * mib

	maxWindow, piece, beyond = 32 * mib, 8 * mib, 8 * mib
)

// asker follows what an ahead asks for.
type asker struct {
	Tracker
	asked map[int64]int // by 4 KiB
	ahead int64         // end of all that
}

func newAsker() *asker {
	return &asker{Tracker: Tracker{Window: Window{Ahead: maxWindow, Piece: piece, Beyond: beyond}}, asked: map[int64]int{}}
}

// read reads, and returns how many bytes it asked for.
func (x *asker) read(off, n int64) (bytes int64) {
	for _, s := range x.Read(nil, off, n, sectionStart, sectionEnd) {
		bytes += s.To - s.From
		x.ahead = max(x.ahead, s.To)
		for at := s.From; at < s.To; at += 4096 {
			x.asked[at/4096]++
		}
	}
	return bytes
}

// A reader that goes on has a bounded window before it, and nothing is asked for twice.
func TestStream(t *testing.T) {
	for _, tt := range []struct {
		name     string
		off, n   int64
		shuffled bool // pairs of reads arrive in the wrong order
	}{
		{"large reads from the start", sectionStart, mib, false},
		{"large reads from the middle", sectionStart + 10*mib, mib, false},
		{"small reads from the start", sectionStart, 128 << 10, false},
		{"large reads in another order", sectionStart, mib, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newAsker()
			for i, off := 0, tt.off; off < sectionEnd; i, off = i+1, off+tt.n {
				at := off
				if tt.shuffled {
					at = tt.off + int64(i^1)*tt.n
				}
				if at >= sectionEnd {
					continue
				}
				x.read(at, tt.n)
				if x.ahead > off+2*tt.n+maxWindow || x.ahead > sectionEnd+beyond {
					t.Fatalf("after the read at %d it asked up to %d", off, x.ahead)
				}
				if far := min(off+maxWindow-piece, sectionEnd); off > tt.off+maxWindow && x.ahead < far {
					t.Fatalf("after the read at %d it asked up to %d only, want %d", off, x.ahead, far)
				}
			}
			for at, n := range x.asked {
				if n > 1 {
					t.Fatalf("it asked %d times for %d", n, at*4096)
				}
			}
			if len(x.asked)*4096 < 90*mib-firstRun {
				t.Errorf("it asked for %d bytes", len(x.asked)*4096)
			}
		})
	}
}

// A large read at the start of a section is the beginning of a stream.
func TestFirstRead(t *testing.T) {
	x := newAsker()
	if n := x.read(sectionStart, mib); n < 4*mib || n > 8*mib {
		t.Errorf("the first read asked for %d bytes", n)
	}
}

// Readers that go on nowhere ask for nothing.
func TestRandomReads(t *testing.T) {
	x := newAsker()
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		if n := x.read(sectionStart+r.Int64N(90)*mib, 4096); n > 0 {
			t.Fatalf("a read of 4 KiB asked for %d bytes", n)
		}
	}
	for i := range int64(7) {
		if n := x.read(sectionStart+i*(forward+backward+mib), 128<<10); n > 0 {
			t.Fatalf("a single read of 128 KiB asked for %d bytes", n)
		}
	}
}

// Several readers have a window each.
func TestSeveralReaders(t *testing.T) {
	x := newAsker()
	for off := int64(0); off < 20*mib; off += mib {
		for reader := range int64(4) {
			x.read(sectionStart+reader*25*mib+off, mib)
		}
	}
	for reader := range int64(4) {
		at := sectionStart + reader*25*mib + 20*mib
		if x.asked[at/4096] == 0 {
			t.Errorf("nothing was asked for before reader %d, at %d", reader, at)
		}
	}
}

// A section is not read past its end, nor for ever, where its reader was further on
// in another one.
func TestEarlierSection(t *testing.T) {
	x := Tracker{Window: Window{Ahead: maxWindow, Piece: piece}}
	x.Read(nil, 10*mib, 16<<10, 10*mib, 20*mib)
	x.Read(nil, 13*mib, 16<<10, 10*mib, 20*mib)
	const end = 9 * mib
	for off := int64(8 * mib); off < end; off += mib / 2 {
		for _, s := range x.Read(nil, off, mib/2, 8*mib, end) {
			if s.To > end || s.From >= s.To {
				t.Fatalf("[%d, %d) is asked for in a section that ends at %d", s.From, s.To, end)
			}
		}
	}
	// Whatever is read, in whatever sections: it ends, within them.
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		start := r.Int64N(64) * mib / 4
		end := start + 1 + r.Int64N(8*mib)
		off := start + r.Int64N(end-start)
		n := 1 + r.Int64N(min(end-off, 64<<10<<r.IntN(8)))
		at := int64(-1)
		for _, s := range x.Read(nil, off, n, start, end) {
			if s.To > end || s.From >= s.To || s.From < at {
				t.Fatalf("[%d, %d) is asked for in [%d, %d)", s.From, s.To, start, end)
			}
			at = s.To
		}
	}
}

// For a reader that goes from section to section, more is requested after the end of each section,
// and never more than it has read so far. For a reader that stays in the first section, nothing is.
func TestOnward(t *testing.T) {
	const size, sections = 8 * mib, 12
	tr := Tracker{Window: Window{Ahead: 64 * mib, Piece: piece, Onward: true}}
	asked, most := int64(0), int64(0)
	for i := range int64(sections) {
		start := i * size
		for off := start; off < start+size; off += mib {
			for _, s := range tr.Read(nil, off, mib, start, start+size) {
				asked = max(asked, s.To)
			}
			if after := asked - (start + size); after > start {
				t.Fatalf("%d bytes were asked for after section %d", after, i)
			} else {
				most = max(most, after)
			}
		}
	}
	if most < 32*mib {
		t.Errorf("at most %d bytes were asked for after a section", most)
	}
	tr = Tracker{Window: Window{Ahead: 64 * mib, Piece: piece, Onward: true}}
	for off := int64(0); off < size; off += mib {
		for _, s := range tr.Read(nil, 40*mib+off, mib, 40*mib, 40*mib+size) {
			if s.To > 40*mib+size {
				t.Errorf("%v is after the end of a section that was read alone", s)
			}
		}
	}
}

// Of a reader that goes through the sections of each layer in the same order, which is not the file's, the next section is
// requested before the reader comes to it, as soon as one layer has been read. Nothing else is requested.
func TestJumps(t *testing.T) {
	type section struct{ start, size int64 }
	// A layer's k, norm, o, q, v, down, gate and up, by name; the file has them in another order.
	layer := []section{{9 * mib, 2 * mib}, {0, 4096}, {13 * mib, 8 * mib}, {1 * mib, 8 * mib}, {11 * mib, 2 * mib}, {67 * mib, 23 * mib}, {21 * mib, 23 * mib}, {44 * mib, 23 * mib}}
	const layers, each, chunk = 6, 91 * mib, 4 * mib
	for _, reads := range []int64{128 << 10, mib} {
		tr := Tracker{Window: Window{Ahead: 64 * mib, Piece: chunk, Beyond: chunk, Onward: true, Shared: true}}
		asked := map[int64]bool{}                         // by 64 KiB
		requested := func(l int64, i int) (bytes int64) { // of what is read from the start of a section on
			for ; l < layers; l, i = l+1, 0 {
				for ; i < len(layer); i++ {
					for at := int64(0); at < layer[i].size; at += 64 << 10 {
						if layer[i].size > mib && !asked[(l*each+layer[i].start+at)/(64<<10)] {
							return bytes
						}
						bytes += min(64<<10, layer[i].size)
					}
				}
			}
			return math.MaxInt64
		}
		for l := range int64(layers) {
			for i, x := range layer {
				if got := requested(l, i); l > 1 && x.size > mib && got < 12*mib {
					t.Errorf("reads of %d: before section %d of layer %d, %d bytes from there on are requested", reads, i, l, got)
				}
				start := l*each + x.start
				for off := start; off < start+x.size; off += reads {
					n := min(reads, start+x.size-off)
					for _, s := range tr.Read(nil, off, n, start, start+x.size) {
						for at := s.From / (64 << 10); at < s.To/(64<<10); at++ {
							asked[at] = true
						}
					}
				}
			}
		}
		if most := int64((layers + 1) * each); int64(len(asked))<<16 > most {
			t.Errorf("reads of %d: %d bytes are requested, want at most %d", reads, len(asked)<<16, most)
		}
	}
}

// Whatever jumps readers make, what is requested begins in the file, is not empty, and is at most the window for each read.
func TestJumpsAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tr := Tracker{Window: Window{Ahead: 64 * mib, Piece: 4 * mib, Beyond: 4 * mib, Onward: true, Shared: true}}
	for range 200_000 {
		start, size := r.Int64N(16)*8*mib, (1+r.Int64N(2))*4*mib
		off := start
		if r.IntN(3) > 0 {
			off += r.Int64N(size)
		}
		n, bytes := 1+r.Int64N(min(start+size-off, 1<<20)), int64(0)
		for _, s := range tr.Read(nil, off, n, start, start+size) {
			if s.From < 0 || s.To <= s.From {
				t.Fatalf("[%d, %d) is requested", s.From, s.To)
			}
			bytes += s.To - s.From
		}
		if bytes > 2*(64+8)*mib {
			t.Fatalf("a read requests %d bytes", bytes)
		}
	}
}

// Readers that share a window have as much of it together as one reader has, and each a piece. A reader that goes on
// after all other readers has all of it.
func TestShared(t *testing.T) {
	const apart, window, own = 256 * mib, 64 * mib, 4 * mib
	for _, readers := range []int64{1, 4, maxStreams} {
		tr := Tracker{Window: Window{Ahead: window, Piece: own, Shared: true}}
		ahead := make([]int64, readers)
		read := func(i, off int64) {
			for _, s := range tr.Read(nil, i*apart+off, mib, i*apart, (i+1)*apart) {
				ahead[i] = max(ahead[i], s.To-i*apart-off-mib)
			}
		}
		for off := int64(0); off < 64*mib; off += mib {
			if off == 32*mib {
				clear(ahead) // without what was asked for before all readers had begun
			}
			for i := range readers {
				read(i, off)
			}
		}
		for i, got := range ahead {
			if want := max(window/readers, own); got > want || got < want-own {
				t.Errorf("%d readers: reader %d has %d bytes ahead, want %d", readers, i, got, want)
			}
		}
		clear(ahead)
		for off := int64(64 * mib); off < 160*mib; off += mib {
			read(0, off)
		}
		if ahead[0] < window-own {
			t.Errorf("of %d readers the one that is left has %d bytes ahead, want %d", readers, ahead[0], window)
		}
	}
}
