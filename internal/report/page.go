package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
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

// pageData is what the page's script reads. Cells are lists of values, and Columns names the
// values, because there may be fifty thousand cells.
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
	Columns   []string  `json:"columns"`
	Cells     []cell    `json:"cells"`
}

// cell is a tensor in the map. Columns are the names of its fields, in lower case.
type cell struct {
	Kind, Layer, Type, Shape int
	Name                     string // "" if it follows from Kind and Layer
	RMS, Peak, Q4, Q8        *short
	Status                   string
	Relative                 *short
	Part, Rank               short
	Counted                  int
	Mark                     string // names an entry of the script's marks; may be ""
	More                     *pageMore
}

// columns returns the names of a cell's values.
func columns() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cell]()) {
		names = append(names, strings.ToLower(f.Name))
	}
	return names
}

// MarshalJSON writes the values as a list, without the last one if it is nil.
func (c cell) MarshalJSON() ([]byte, error) {
	var values []any
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		values = append(values, v.Field(i).Interface())
	}
	if c.More == nil {
		values = values[:len(values)-1]
	}
	return json.Marshal(values)
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
	d := pageData{Title: title, Path: r.Model, Other: r.Other != "", OtherPath: r.Other, Facts: r.Facts, Metadata: r.Metadata, Findings: r.Findings, Layers: r.Layers, Columns: columns()}
	var kinds, types indexed[string]
	var shapes indexed[[]int64]
	for _, k := range r.Kinds {
		d.Order = append(d.Order, kinds.indexOf(k, k))
	}
	whole := len(r.Cells) <= brief
	for i := range r.Cells {
		c := &r.Cells[i]
		x := cell{Kind: kinds.indexOf(c.Kind, c.Kind), Layer: c.Layer, Type: types.indexOf(c.Type, c.Type), Shape: shapes.indexOf(fmt.Sprint(c.Shape), c.Shape)}
		if usual := c.Kind + ".weight"; c.Layer < 0 && c.Name != usual || c.Layer >= 0 && c.Name != fmt.Sprintf("layers.%d.%s", c.Layer, usual) {
			x.Name = c.Name
		}
		more := pageMore{Why: c.Why}
		if f := c.Figures; f != nil {
			x.RMS, x.Peak, x.Q4, x.Q8 = (*short)(&f.RMS), (*short)(&f.Peak), (*short)(f.Q4), (*short)(f.Q8)
			switch {
			case f.NonFinite > 0:
				x.Mark = "nan"
			case f.Count > 0 && f.Zeros == f.Count:
				x.Mark = "zeros"
			}
			if whole {
				more.Count, more.NonFinite, more.Zeros = f.Count, f.NonFinite, f.Zeros
				more.Min, more.Max, more.Mean, more.Kurtosis = (*short)(&f.Min), (*short)(&f.Max), (*short)(&f.Mean), (*short)(&f.Kurtosis)
				more.Bins, more.Columns, more.Rows = f.Bins, f.Columns, f.Rows
			}
		}
		if change := c.Change; change != nil {
			if change.NonFinite > 0 && x.Mark != "nan" {
				x.Mark = "other_nan"
			}
			x.Status, x.Relative, x.Part, x.Rank, x.Counted = change.Status, (*short)(change.Relative), short(change.Part), short(change.Rank), change.Counted
			if whole && change.Largest > 0 {
				more.Largest = (*short)(&change.Largest)
			}
			if whole {
				more.Odd = change.NonFinite
			}
		}
		if whole || c.Why != "" {
			x.More = &more
		}
		d.Cells = append(d.Cells, x)
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
