package kernel

import (
	"slices"
	"sync"
)

// A codebook finds rows of a codebook of ggml's IQ types (drawn in go_iq.go). A number has one of a few levels, and only some combinations of 8 (IQ3: 4) levels
// are rows. A combination that is not a row has neighbours: the rows at the shortest distances
// to it. Their order matters, because of equal rows the first one is chosen.
//
// iq2xs_init_impl and iq3xs_init_impl in ggml-quants.c make the same maps and neighbours. A
// codebook is made when its type is first encoded.
type codebook struct {
	width, base int        // levels of a row, and how many levels there are
	rows        [][8]uint8 // 8*i + level, for each level i of a row: indexes of a table of costs

	// byIndex has the row of a combination of levels, whose index has a digit for each level,
	// the first one lowest. What is negative is ^at for a combination that is not a row: its
	// neighbours are near[at+1:], near[at] of them.
	byIndex []int32
	near    []uint16
}

// The codebooks. The number of distances, from the shortest one, is ggml's for each type.
var (
	codebookIQ1     = sync.OnceValue(func() *codebook { return newCodebook(iq1sGrid, 8, 3) })
	codebookIQ2_XXS = sync.OnceValue(func() *codebook { return newCodebook(iq2xxsGrid, 8, 2) })
	codebookIQ2_XS  = sync.OnceValue(func() *codebook { return newCodebook(iq2xsGrid, 8, 2) })
	codebookIQ2_S   = sync.OnceValue(func() *codebook { return newCodebook(iq2sGrid, 8, 1) })
	codebookIQ3_XXS = sync.OnceValue(func() *codebook { return newCodebook(iq3xxsGrid, 4, 2) })
	codebookIQ3_S   = sync.OnceValue(func() *codebook { return newCodebook(iq3sGrid, 4, 3) })
)

// newCodebook takes the rows that decoders use, whose bytes are in the order of their levels.
func newCodebook(grid string, width, distances int) *codebook {
	var values []int8
	for _, b := range []byte(grid) {
		if v := int8(b); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	c := &codebook{width: width, base: len(values), rows: make([][8]uint8, len(grid)/width)}
	indexes := 1
	for range width {
		indexes *= c.base
	}
	c.byIndex = make([]int32, indexes)
	for i := range c.byIndex {
		c.byIndex[i] = -1
	}
	for r := range c.rows {
		index, digit := 0, 1
		for i, b := range []byte(grid[width*r:][:width]) {
			level := slices.Index(values, int8(b))
			c.rows[r][i] = uint8(8*i + level)
			index += level * digit
			digit *= c.base
		}
		c.byIndex[index] = int32(r)
	}
	c.addNeighbours(distances)
	return c
}

// addNeighbours fills in what is near the combinations that are not rows: by their distances,
// and by their numbers.
func (c *codebook) addNeighbours(distances int) {
	// A distance is the sum of the distances between both halves of the levels.
	half := 1
	for range c.width / 2 {
		half *= c.base
	}
	between := make([]uint8, half*half)
	for i := range between {
		for a, b := i/half, i%half; a != b; a, b = a/c.base, b/c.base {
			d := a%c.base - b%c.base
			between[i] += uint8(d * d)
		}
	}
	halves := make([][2]int, len(c.rows)) // of a row: indexes in a part of between
	for index, r := range c.byIndex {
		if r >= 0 {
			halves[r] = [2]int{index % half, index / half}
		}
	}
	away := make([]uint8, len(c.rows))
	for index, r := range c.byIndex {
		if r >= 0 {
			continue
		}
		first, second := between[index%half*half:][:half], between[index/half*half:][:half]
		var at [256]bool // whether a row is so far away
		for r, h := range halves {
			away[r] = first[h[0]] + second[h[1]]
			at[away[r]] = true
		}
		start := len(c.near)
		c.byIndex[index] = ^int32(start)
		c.near = append(c.near, 0)
		for d, left := 0, distances; left > 0 && d < len(at); d++ {
			if !at[d] {
				continue
			}
			left--
			for r, a := range away {
				if int(a) == d {
					c.near = append(c.near, uint16(r))
				}
			}
		}
		c.near[start] = uint16(len(c.near) - start - 1)
	}
}

// neighbours returns the rows near a combination that is not one, whose place in byIndex is at.
func (c *codebook) neighbours(at int32) []uint16 {
	list := c.near[^at:]
	return list[1:][:list[0]]
}

// costs has what each level of up to 8 numbers costs, 8 numbers to each.
type costs [64]float32

// cheapest returns the first of some rows of 8 that costs least: the sum of its levels' costs, in
// their order. It is the first row if none costs less than the largest F32: ggml ends its
// process or reads outside of its numbers then, and one of them is not finite, or close to
// that. Costs may be negative if they are signed.
func (c *codebook) cheapest(rows []uint16, of *costs, signed bool) int32 {
	row, least := rows[0], float32(largestF32)
	for _, n := range rows {
		r := &c.rows[n]
		sum := of[r[0]&63] + of[r[1]&63] + of[r[2]&63] + of[r[3]&63]
		if sum >= least && !signed { // more costs make it larger
			continue
		}
		sum = sum + of[r[4]&63] + of[r[5]&63] + of[r[6]&63] + of[r[7]&63]
		if sum < least {
			row, least = n, sum
		}
	}
	return int32(row)
}

const largestF32 = 0x1.fffffep127
