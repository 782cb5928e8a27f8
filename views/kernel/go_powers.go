package kernel

import (
	"encoding/binary"
	"math"
)

// add is the specification of Powers.Add. b begins at lane 0.
func (p *Powers) add(b []byte, columns []float64) {
	for i := range columns {
		bits := binary.LittleEndian.Uint32(b[4*i:])
		p.any |= bits
		v := math.Float32frombits(bits)
		if v-v != 0 {
			p.nonFinite++
			continue
		}
		lane := i % 8
		if v < p.least[lane] {
			p.least[lane] = v
		}
		if v > p.most[lane] {
			p.most[lane] = v
		}
		if v == 0 {
			p.zeros[lane]++
		}
		x := float64(v)
		s := float64(x * x)
		p.sum[lane] += x
		p.square[lane] += s
		p.four[lane] = math.FMA(s, s, p.four[lane])
		columns[i] += s
	}
}

// add is the specification of Losses.Add, for a block.
func (l *Losses) add(b []byte) {
	var codes [34]byte
	var back [128]byte
	toQ4_0(codes[:18], b)
	q4_0(back[:], codes[:18], Single)
	addLoss(&l.q4, b, &back)
	toQ8_0(codes[:], b)
	q8_0(back[:], codes[:], Single)
	addLoss(&l.q8, b, &back)
}

func addLoss(sums *[4]float64, b []byte, back *[128]byte) {
	for i := range 32 {
		e := float64(float32(numberF32(b[4*i:]) - numberF32(back[4*i:])))
		sums[i%4] += float64(e * e)
	}
}
