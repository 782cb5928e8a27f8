package memory

import (
	"math"
	"math/bits"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// checked computes with numbers that are not negative, and remembers whether a result ever was
// negative or beyond 2^62, which no memory has: the results are then worth nothing.
type checked struct{ bad bool }

// limit is what no result may exceed.
const limit = int64(1) << 62

// mul returns the product of all.
func (c *checked) mul(all ...int64) int64 {
	product := uint64(1)
	for _, x := range all {
		hi, lo := bits.Mul64(product, uint64(max(x, 0)))
		if x < 0 || hi != 0 || lo > uint64(limit) {
			c.bad = true
			return 0
		}
		product = lo
	}
	return int64(product)
}

// add returns the sum of all, which may be negative.
func (c *checked) add(all ...int64) int64 {
	sum := int64(0)
	for _, x := range all {
		if x > limit || x < -limit || sum > limit || sum < -limit { // so no sum of two overflows
			c.bad = true
			return 0
		}
		sum += x
	}
	return sum
}

// value returns an expression's. A name without a value is a mistake in a table.
func (c *checked) value(e *architectures.Expr, env *architectures.Env) int64 {
	n, ok := e.In(env).(int64)
	if !ok || n < 0 || n > limit {
		c.bad = true
		return 0
	}
	return n
}

// parsed reads an expression of one of the tables. It panics on a mistake, because the tables are
// parts of this program.
func parsed(text string) *architectures.Expr {
	e, err := architectures.ParseExpr(text)
	if err != nil {
		panic("memory: " + err.Error())
	}
	return e
}

// pad returns the next multiple of a positive n, which is small.
func (c *checked) pad(x, n int64) int64 {
	if x < 0 || x > math.MaxInt64-n {
		c.bad = true
		return 0
	}
	return (x + n - 1) / n * n
}
