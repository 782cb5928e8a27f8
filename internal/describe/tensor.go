package describe

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Shape is as in numpy and index.json.
func Shape(t *tensorfs.Tensor) string {
	return strings.ReplaceAll(fmt.Sprint(t.Numbers()), " ", ", ")
}

// BriefType names what a tensor is stored as in one word.
func BriefType(t *tensorfs.Tensor) string {
	switch q := t.Quant; {
	case q != nil && q.Mode == "affine":
		return fmt.Sprintf("affine%d", q.Bits)
	case q != nil && q.GroupSize > 0:
		return q.Mode
	}
	return t.DType.String()
}

type TensorJSON struct {
	SourceName json.RawMessage `json:"source_name"`
	DType      string          `json:"dtype"`
	Shape      []int64         `json:"shape"`
}

func Tensor(t *tensorfs.Tensor) *TensorJSON {
	if t == nil {
		return nil
	}
	return &TensorJSON{tensorfs.AppendJSONString(nil, t.Source), t.DType.String(), append([]int64{}, t.Numbers()...)}
}

// JSONFloat is a number that may be NaN or infinite, which JSON has as texts.
type JSONFloat float64

func (f JSONFloat) MarshalJSON() ([]byte, error) {
	return tensorfs.Meta{Value: float64(f)}.AppendJSON(nil), nil
}
