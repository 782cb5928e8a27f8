package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/template"

	"github.com/tensorfs/tensorfs/views/measure"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// pageData is what the page's script reads. Cells are lists, as short as they can be, because
// there may be fifty thousand.
type pageData struct {
	Title     string    `json:"title"`
	Path      string    `json:"path"`
	Other     bool      `json:"other"`
	OtherPath string    `json:"otherPath,omitempty"`
	Facts     []string  `json:"facts"`
	Metadata  []Meta    `json:"metadata"`
	Findings  []Finding `json:"findings"`
	Layers    int       `json:"layers"`
	Kinds     []string  `json:"kinds"`
	Order     []int     `json:"order"` // of kinds in the map
	Types     []string  `json:"types"`
	Shapes    [][]int64 `json:"shapes"`
	Cells     [][]any   `json:"cells"`
}

// pageMore is what the card shows besides.
type pageMore struct {
	Why       string         `json:"why,omitempty"`
	Count     int64          `json:"count,omitempty"`
	NonFinite int64          `json:"non_finite,omitempty"`
	Zeros     int64          `json:"zeros,omitempty"`
	Min       *short         `json:"min,omitempty"`
	Max       *short         `json:"max,omitempty"`
	Mean      *short         `json:"mean,omitempty"`
	Kurtosis  *short         `json:"kurtosis,omitempty"`
	Largest   *short         `json:"largest,omitempty"`
	Odd       int64          `json:"odd,omitempty"` // NaN or infinite in one model only
	Bins      []int64        `json:"bins,omitempty"`
	Columns   []measure.Line `json:"columns,omitempty"`
	Rows      []measure.Line `json:"rows,omitempty"`
}

// short is a number with six digits.
type short float64

func (s short) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(s), 'g', 6, 64), nil
}

// indexed numbers texts and shapes in the order in which they come.
type indexed[T any] struct {
	at   map[string]int
	list []T
}

func (x *indexed[T]) indexOf(key string, v T) int {
	if x.at == nil {
		x.at = map[string]int{}
	}
	i, ok := x.at[key]
	if !ok {
		i = len(x.list)
		x.at[key], x.list = i, append(x.list, v)
	}
	return i
}

// data lays the report out for the page.
func (r *Report) data(title string) pageData {
	d := pageData{Title: title, Path: r.Model, Other: r.Other != "", OtherPath: r.Other, Facts: r.Facts, Metadata: r.Metadata, Findings: r.Findings, Layers: r.Layers}
	var kinds, types indexed[string]
	var shapes indexed[[]int64]
	for _, k := range r.Kinds {
		d.Order = append(d.Order, kinds.indexOf(k, k))
	}
	whole := len(r.Cells) <= brief
	for i := range r.Cells {
		c := &r.Cells[i]
		cell := []any{kinds.indexOf(c.Kind, c.Kind), c.Layer, types.indexOf(c.Type, c.Type), shapes.indexOf(fmt.Sprint(c.Shape), c.Shape), 0, nil, nil, nil, nil, 0, 0, 0, 0, 0, 0}
		if usual := c.Kind + ".weight"; c.Layer < 0 && c.Name != usual || c.Layer >= 0 && c.Name != fmt.Sprintf("layers.%d.%s", c.Layer, usual) {
			cell[4] = c.Name
		}
		more := pageMore{Why: c.Why}
		if f := c.Figures; f != nil {
			cell[5], cell[6] = short(f.RMS), short(f.Peak)
			for k, q := range []*float64{f.Q4, f.Q8} {
				if q != nil {
					cell[7+k] = short(*q)
				}
			}
			switch {
			case f.NonFinite > 0:
				cell[14] = 1
			case f.Count > 0 && f.Zeros == f.Count:
				cell[14] = 2
			}
			if whole {
				more.Count, more.NonFinite, more.Zeros = f.Count, f.NonFinite, f.Zeros
				more.Min, more.Max, more.Mean, more.Kurtosis = (*short)(&f.Min), (*short)(&f.Max), (*short)(&f.Mean), (*short)(&f.Kurtosis)
				more.Bins, more.Columns, more.Rows = f.Bins, f.Columns, f.Rows
			}
		}
		if x := c.Change; x != nil {
			if x.NonFinite > 0 && cell[14] != 1 {
				cell[14] = 4
			}
			cell[9], cell[10], cell[11], cell[12] = x.Status, nil, short(x.Part), short(x.Rank)
			cell[13] = x.Counted
			if x.Relative != nil {
				cell[10] = short(*x.Relative)
			}
			if whole && x.Largest > 0 {
				more.Largest = (*short)(&x.Largest)
			}
			if whole {
				more.Odd = x.NonFinite
			}
		}
		if whole || c.Why != "" {
			cell = append(cell, more)
		}
		d.Cells = append(d.Cells, cell)
	}
	d.Kinds, d.Types, d.Shapes = kinds.list, types.list, shapes.list
	return d
}

// WritePage writes the page. Nothing in it asks a network, and no text of a model becomes a part
// of the page's own code.
func (r *Report) WritePage(w io.Writer, title string) error {
	text, err := json.Marshal(r.data(title)) // which has no <, > and & in it
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(pageScript))
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, struct{ Hash, Style, Data, Script string }{"sha256-" + base64.StdEncoding.EncodeToString(sum[:]), pageStyle, string(text), pageScript})
}
