package metal

import (
	"fmt"
	"math"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// indexVersion is the version of index.json that this package reads.
const indexVersion = 1

// index is index.json. It is read where the files do not say themselves what they
// are, and to say why one is absent.
type index struct {
	text   textFile
	model  modelEntry
	views  map[string]*object // of entries
	absent map[string]*object // of reasons
}

// modelEntry is what the tree says about the model.
type modelEntry struct {
	Format       any         `json:"format"`
	Path         any         `json:"path"` // an object where it is not UTF-8
	Architecture any         `json:"architecture"`
	Layout       any         `json:"layout"`
	Files        []fileEntry `json:"files"`
}

// info leaves out what is not UTF-8.
func (m *modelEntry) info() ModelInfo {
	text := func(v any) string { s, _ := v.(string); return s }
	return ModelInfo{text(m.Format), text(m.Path), text(m.Architecture), text(m.Layout)}
}

// fileEntry is the state of a file of the model when it was opened. Times of 0
// say nothing.
type fileEntry struct {
	Name  any    `json:"name"` // below source/
	Bytes int64  `json:"bytes"`
	Inode uint64 `json:"inode"`
	MTime int64  `json:"mtime_ns"`
	CTime int64  `json:"ctime_ns"`
}

// entry is what the tree says about a tensor.
type entry struct {
	DType    string        `json:"dtype"`
	Shape    []int64       `json:"shape"`
	Bytes    int64         `json:"bytes"`
	Extents  []extentEntry `json:"extents"`
	Quant    *Quant        `json:"quant"`
	Sections []Section     `json:"sections"`
	Engine   *int          `json:"engine_dtype"`
}

// extentEntry is a run of bytes of a file of the model.
type extentEntry struct {
	File   any   `json:"file"` // an object where the name is not UTF-8
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// check returns an error unless the numbers of an entry fit each other.
func (e *entry) check() error {
	if e.DType == "" || e.Shape == nil || e.Bytes < 0 {
		return fmt.Errorf("dtype, shape or bytes are missing")
	}
	for _, d := range e.Shape {
		if d < 0 {
			return fmt.Errorf("shape %v", e.Shape)
		}
	}
	for _, s := range e.Sections {
		if s.Offset < 0 || s.Bytes < 0 || s.Offset > e.Bytes || s.Bytes > e.Bytes-s.Offset {
			return fmt.Errorf("section %q: %d bytes at %d, of %d", s.Name, s.Bytes, s.Offset, e.Bytes)
		}
	}
	for _, x := range e.Extents {
		if x.Offset < 0 || x.Bytes < 0 || x.Offset > math.MaxInt64-x.Bytes {
			return fmt.Errorf("an extent is not a range of a file: %d bytes at %d", x.Bytes, x.Offset)
		}
	}
	return nil
}

// readIndex reads index.json, which it owns from here on, also on error.
func readIndex(f *os.File) (*index, error) {
	x := &index{text: textFile{f}, views: map[string]*object{}, absent: map[string]*object{}}
	if err := x.text.read(x.read); err != nil {
		f.Close()
		return nil, fmt.Errorf("index.json: %w", reword(err))
	}
	return x, nil
}

func (x *index) read(d *jsontext.Decoder) error {
	version, left := 0, maxNames
	objects := func(into map[string]*object) error {
		return members(d, func(view string) (err error) {
			if left--; left < 0 {
				return errNames
			}
			if into[view] != nil {
				return fmt.Errorf("view %q is there twice", view)
			}
			if into[view], err = readObject(d, &left); err != nil {
				err = fmt.Errorf("view %q: %w", view, err)
			}
			return err
		})
	}
	err := members(d, func(name string) error {
		switch name {
		case "version":
			if err := json.UnmarshalDecode(d, &version); err != nil {
				return err
			}
			if version != indexVersion {
				return fmt.Errorf("version %d, and only version %d is known; mount and load with the same release of tensorfs", version, indexVersion)
			}
			return nil
		case "model":
			text, err := d.ReadValue()
			if err == nil {
				err = checkValue(int64(len(text)))
			}
			if err != nil {
				return err
			}
			return json.Unmarshal(text, &x.model)
		case "views":
			return objects(x.views)
		case "absent":
			return objects(x.absent)
		}
		return d.SkipValue()
	})
	if err == nil && version == 0 {
		err = fmt.Errorf("no version: this is not an index of a tensorfs tree")
	}
	return err
}

// value decodes what an object of a view says of a name; false where it has none.
func (x *index) value(of map[string]*object, ref Ref, into any) (bool, error) {
	view := of[ref.View]
	if view == nil {
		return false, nil
	}
	at, ok := view.find(ref.Name)
	if !ok {
		return false, nil
	}
	text, err := x.text.value(at)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return true, err
}

// entry returns what the index says of a tensor; nil where the view has none of
// that name.
func (x *index) entry(ref Ref) (*entry, error) {
	e := &entry{Bytes: -1}
	ok, err := x.value(x.views, ref, e)
	if !ok {
		return nil, nil
	}
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return nil, fmt.Errorf("index.json: %s: %w", ref, reword(err))
	}
	return e, nil
}

// reason returns why a view leaves a tensor out, "" where the index does not say.
func (x *index) reason(ref Ref) (why string) {
	if _, err := x.value(x.absent, ref, &why); err != nil {
		return ""
	}
	return why
}
