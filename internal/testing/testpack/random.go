package testpack

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Normals are the numbers of numpy.random.default_rng(seed).standard_normal: PCG64 and a
// ziggurat of 256 layers.
type Normals struct {
	hi, lo, incHi, incLo uint64
	seen                 []float64
}

// NewNormals returns the numbers of a seed.
func NewNormals(seed uint64) *Normals {
	s := seedSequence(seed)
	n := &Normals{incHi: s[2]<<1 | s[3]>>63, incLo: s[3]<<1 | 1}
	n.step()
	var carry uint64
	n.lo, carry = bits.Add64(n.lo, s[1], 0)
	n.hi, _ = bits.Add64(n.hi, s[0], carry)
	n.step()
	return n
}

// First returns the first count numbers.
func (n *Normals) First(count int) []float64 {
	for len(n.seen) < count {
		n.seen = append(n.seen, n.next())
	}
	return n.seen[:count]
}

// seedSequence is NumPy's SeedSequence(seed).generate_state(4, numpy.uint64).
func seedSequence(seed uint64) [4]uint64 {
	const multA, multB, mixL, mixR = 0x931e8875, 0x58f38ded, 0xca01f9dd, 0x4973f715
	entropy := [4]uint32{uint32(seed), uint32(seed >> 32)}
	constant := uint32(0x43b0d7e5)
	hash := func(v, mult uint32) uint32 {
		v ^= constant
		constant *= mult
		v *= constant
		return v ^ v>>16
	}
	var pool [4]uint32
	for i := range pool {
		pool[i] = hash(entropy[i], multA)
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := mixL*pool[to] - mixR*hash(pool[from], multA)
				pool[to] = v ^ v>>16
			}
		}
	}
	constant = 0x8b51f9dd
	var out [4]uint64
	for i := range 8 {
		out[i/2] |= uint64(hash(pool[i%4], multB)) << (i % 2 * 32)
	}
	return out
}

func (n *Normals) step() {
	const multHi, multLo = 0x2360ed051fc65da4, 0x4385df649fccf645
	hi, lo := bits.Mul64(n.lo, multLo)
	hi += n.hi*multLo + n.lo*multHi
	var carry uint64
	n.lo, carry = bits.Add64(lo, n.incLo, 0)
	n.hi, _ = bits.Add64(hi, n.incHi, carry)
}

func (n *Normals) uint64() uint64 {
	n.step()
	return bits.RotateLeft64(n.hi^n.lo, -int(n.hi>>58))
}

func (n *Normals) float64() float64 { return float64(n.uint64()>>11) / (1 << 53) }

// ziggurat has the layers: the largest mantissa that needs no comparison, the width, the height.
var ziggurat = func() (layers [256]struct {
	mantissa      uint64
	width, height float64
}) {
	for i, line := range strings.Split(strings.TrimSpace(zigguratText), "\n") {
		var width, height uint64
		if _, err := fmt.Sscanf(line, "%x %x %x", &layers[i].mantissa, &width, &height); err != nil {
			panic(err)
		}
		layers[i].width, layers[i].height = math.Float64frombits(width), math.Float64frombits(height)
	}
	return
}()

//go:embed ziggurat.txt
var zigguratText string

func (n *Normals) next() float64 {
	const end = 3.6541528853610087963519472518
	for {
		r := n.uint64()
		i, mantissa := r&0xff, r>>9&(1<<52-1)
		x := float64(mantissa) * ziggurat[i].width
		if r>>8&1 == 1 {
			x = -x
		}
		if mantissa < ziggurat[i].mantissa {
			return x
		}
		if i > 0 {
			low, high := ziggurat[i].height, ziggurat[i-1].height
			if float64((high-low)*n.float64())+low < math.Exp(-0.5*x*x) {
				return x
			}
			continue
		}
		for {
			beyond := -math.Log1p(-n.float64()) / end
			y := -math.Log1p(-n.float64())
			if y+y > beyond*beyond {
				return math.Copysign(end+beyond, float64(1-2*int64(mantissa>>8&1)))
			}
		}
	}
}

// Integers are the numbers of torch.Generator().manual_seed(seed): MT19937.
type Integers struct {
	state [624]uint32
	at    int
	seen  []uint32
}

// NewIntegers returns the numbers of a seed.
func NewIntegers(seed uint32) *Integers {
	m := &Integers{at: 624}
	m.state[0] = seed
	for i := 1; i < len(m.state); i++ {
		before := m.state[i-1]
		m.state[i] = 1812433253*(before^before>>30) + uint32(i)
	}
	return m
}

// First returns the first count numbers.
func (m *Integers) First(count int) []uint32 {
	for len(m.seen) < count {
		if m.at == 624 {
			m.turn()
		}
		y := m.state[m.at]
		m.at++
		y ^= y >> 11
		y ^= y << 7 & 0x9d2c5680
		y ^= y << 15 & 0xefc60000
		m.seen = append(m.seen, y^y>>18)
	}
	return m.seen[:count]
}

func (m *Integers) turn() {
	for i := range m.state {
		y := m.state[i]&0x80000000 | m.state[(i+1)%624]&0x7fffffff
		m.state[i] = m.state[(i+397)%624] ^ y>>1 ^ y&1*0x9908b0df
	}
	m.at = 0
}
