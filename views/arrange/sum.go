package arrange

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// Sum returns the sums of the numbers that differ only in their index of a dimension, which
// the result does not have:
//
//	Sum(t, 1) of [D, 2, C, P, P] is [D, C, P, P]
//
// Each step is rounded to F32. Sums of F16 are rounded to it, all others are F32.
func Sum(t *tensorfs.Tensor, dim int) (*tensorfs.Tensor, error) {
	shape := t.Numbers()
	if dim < 0 || dim >= len(shape) || shape[dim] < 1 || shape[dim] > maxTerms {
		return nil, fmt.Errorf("shape %v has no dimension %d of 1 to %d indices", shape, dim, maxTerms)
	}
	terms := make([]tensorfs.Data, shape[dim])
	for i := range terms {
		term, err := Slice(t, dim, int64(i), 1)
		if err != nil {
			return nil, err
		}
		terms[i] = term.Data
	}
	to := tensorfs.F32
	if t.DType == tensorfs.F16 {
		to = tensorfs.F16
	}
	made, err := calculated("summed in", t, to, numbersBy(func(x float32) float32 { return x }))
	if err != nil {
		return nil, err
	}
	made.Shape = slices.Delete(slices.Clone(shape), dim, dim+1)
	own := *made.Data.(*computed)
	own.d = terms[0]
	made.Data = &sums{own, terms}
	return made, nil
}

// maxTerms bounds what one number is the sum of.
const maxTerms = 64

// sums are numbers computed from one number of each of several Data of one size.
type sums struct {
	computed
	terms []tensorfs.Data
}

func (s *sums) Check() error {
	for _, d := range s.terms {
		if err := tensorfs.Check(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *sums) ReadAt(p []byte, off int64) (int, error) {
	return readElements(s, s.out, s.Size(), p, off)
}

func (s *sums) make(dst []byte, first int64) error {
	n := int64(len(dst)) / s.out
	sum := make([]float32, n)
	for _, d := range s.terms {
		err := viewed(d, first*s.width, n*s.width, func(src []byte) error {
			for i := range sum {
				sum[i] += s.number(src[int64(i)*s.width:])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, x := range sum {
		s.store(dst[int64(i)*s.out:], x)
	}
	return nil
}

var _ tensorfs.Checker = (*sums)(nil)
