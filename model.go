package tensorfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

// Model is what a format's parser returns for a path.
type Model struct {
	Format       string    // "gguf", "safetensors", "huggingface", "mlx", "ollama", "tensorfs"
	Path         string    // as opened, absolute; of a model that is elsewhere its Name
	Name         string    // in a store, with what was found: "hf:ORG/NAME@0123456789ab:Q4_K_M", "ollama:gemma3:4b"; "" for a path
	Architecture string    // GGUF's name for it ("llama"), or "unknown"
	Layout       string    // "gguf" or "hf": whose row order q and k have
	Tensors      []Tensor  // sorted by Name
	Config       []Field   // in the order of the schema
	Metadata     []Meta    // in the order of the source
	Sources      []Source  // files the model consists of, sorted by Name
	Warnings     []string  // what a user should know but no view shows
	ModTime      time.Time // latest of the weight files
	Adapters     []Adapter // what changes tensors of it when they are read, in order
	Merge        *Merge    // the merge that a recipe describes; otherwise nil

	// Shown finds the file that holds a tensor as a view shows it, if the model was opened
	// from a directory of such files; otherwise nil.
	Shown func(view, name string) (ShownFile, bool)

	// Server holds the files of the server's directory from which the model was opened that
	// belong to the model without being Sources; otherwise nil.
	Server fs.FS

	closers []io.Closer
	last    []io.Closer // closed after all others, the latest first
	opened  *opened     // sources, by File
}

// Merge describes a model that is computed from others and is not stored anywhere.
type Merge struct {
	Method string   // "linear"
	Recipe []byte   // text of the recipe
	Names  []string // of the models, as the recipe calls them
	Models []*Model // by Names; the merge owns them
	// Differs lists the reasons why numbers may differ from mergekit's result for the
	// recipe, a sentence for each. It is empty if every bit is the same.
	Differs []string
	// Notes say what else is to know of the merge, such as keys of the recipe without a meaning.
	Notes []string
}

// ShownFile is a local file that can be mapped instead of computing what a view shows.
type ShownFile struct {
	Path  string
	Bytes int64 // that it should have
	// Open opens the file. It is an error if the directory is not the one any more that
	// the model was opened from.
	Open func() (File, error)
}

// opened are the sources that Model.File opened, by name, and what [Model.Once] keeps.
type opened struct {
	sync.Mutex
	files map[string]File

	making sync.Mutex
	made   map[any]any
}

// Once returns the result of compute, which it calls only the first time for each key. A model
// that [NewModel] did not make keeps no results.
func (m *Model) Once(key any, compute func() any) any {
	if m.opened == nil {
		return compute()
	}
	m.opened.making.Lock()
	defer m.opened.making.Unlock()
	v, ok := m.opened.made[key]
	if !ok {
		v = compute()
		if m.opened.made == nil {
			m.opened.made = map[any]any{}
		}
		m.opened.made[key] = v
	}
	return v
}

// Field is one entry of config.json.
type Field struct {
	Name    string
	Value   any  // an int64, float64, string, bool or a slice of these
	Assumed bool // the schema's default: the model does not say it, and neither do its tensors
}

// Source is a file that belongs to the model, shown below source/: as a link if the file is
// local, otherwise with its bytes.
type Source struct {
	Name string // below source/, with slashes; unique
	Path string // absolute, or an address if it is not a file of this machine
	// Open opens the file, or returns one that the model owns already. The caller
	// of Model.File need not close it.
	Open func() (File, error)

	Adapter bool // it is a file of an adapter, see [Model.Rewrite]
}

// Local reports whether the file is one of this machine, under its Path.
func (s *Source) Local() bool { return strings.HasPrefix(s.Path, "/") }

// File is an open file. One of this machine may be a [Stated].
type File interface {
	Data
	io.Closer
}

// Stated is a File of this machine that knows what it was when it was opened.
type Stated interface {
	State() FileState
}

// FileState tells a file from another one in its place, and from what it is after a
// change. Times are nanoseconds since 1970; 0 for a file that is touched on purpose.
type FileState struct {
	Bytes      int64
	Inode      uint64
	ModTime    int64
	ChangeTime int64
}

// States returns the files that hold the model's tensors and are of this machine, by
// their names below source/, as they were when they were opened.
func (m *Model) States() map[string]FileState {
	states := map[string]FileState{}
	seen := map[string]bool{}
	for i := range m.Tensors {
		m.Tensors[i].origins(func(x Extent) {
			if seen[x.File] {
				return
			}
			seen[x.File] = true
			f, err := m.File(x.File)
			if err != nil {
				return
			}
			if s, ok := f.(Stated); ok {
				states[x.File] = s.State()
			}
		})
	}
	return states
}

// NewModel sorts and checks the tensors of m, once for all formats: names are
// unique and usable as file names, and stored sizes fit types and shapes. Later
// code relies on this. The model owns closers from here on, even on error.
func NewModel(m Model, closers ...io.Closer) (*Model, error) {
	m.closers, m.opened = closers, &opened{files: map[string]File{}}
	at, names := companionsOf(m.Tensors)
	slices.SortFunc(m.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	for i, name := range names { // they were somewhere else in the list
		if own := m.Tensor(name); own != nil {
			*at[i] = own
			if owner := m.Tensor(own.Owner); owner != nil && strings.HasPrefix(own.Source, owner.Source) {
				owner.Source = own.Source[:len(owner.Source)] // the same bytes: half of the tensors may be companions
			}
		}
	}
	slices.SortFunc(m.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	err := m.checkTensors()
	if err == nil {
		err = m.checkSources()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &m, nil
}

// companionsOf returns the places where modules refer to companions in a list that is about
// to be sorted, and the companions' names.
func companionsOf(list []Tensor) (at []**Tensor, names []string) {
	note := func(c **Tensor, owner string) {
		if *c != nil && (*c).Owner == owner {
			at, names = append(at, c), append(names, (*c).Name)
		}
	}
	for i := range list {
		t := &list[i]
		if q := t.Quant; q != nil {
			note(&q.Scales, t.Name)
			note(&q.Biases, t.Name)
			note(&q.Global, t.Name)
			for k := range q.Companions {
				note(&q.Companions[k], t.Name)
			}
		}
	}
	return at, names
}

func (m *Model) checkTensors() error {
	weights := map[string]string{} // names under which views show modules, and their sources
	for i := range m.Tensors {
		t := &m.Tensors[i]
		problem := t.problem()
		switch {
		case problem != "":
		case i > 0 && t.Name == m.Tensors[i-1].Name:
			problem = fmt.Sprintf("it and %s would both be called %s", Quote(m.Tensors[i-1].Source), t.Name)
		case t.Quant != nil && t.Quant.Weight != "":
			w := t.Quant.Weight
			other, taken := weights[w]
			if o := m.Tensor(w); o != nil && o != t {
				other, taken = o.Source, true
			}
			if taken {
				problem = fmt.Sprintf("it and %s would both be called %s", Quote(other), w)
			}
			weights[w] = t.Source
		}
		if problem != "" {
			return &FormatError{File: m.Path, Tensor: t.Source, Offset: -1, Problem: problem}
		}
	}
	return nil
}

// problem describes what is wrong with a single tensor; "" if it is valid.
func (t *Tensor) problem() string {
	switch {
	case !ValidName(t.Name):
		return Quote(t.Name) + " is not a file name"
	case t.Quant != nil && t.Quant.Weight != "" && !ValidName(t.Quant.Weight):
		return Quote(t.Quant.Weight) + " is not a file name"
	}
	if _, ok := Elements(t.Shape); !ok {
		return fmt.Sprintf("shape %v has 2^63 elements or more", t.Shape)
	}
	if size, ok := t.DType.Size(t.Shape); !t.DType.Whole() && (!ok || size != t.Data.Size()) {
		return fmt.Sprintf("%d bytes do not fit %s of shape %v", t.Data.Size(), t.DType, t.Shape)
	}
	return ""
}

func (m *Model) checkSources() error {
	names := make(map[string]bool, len(m.Sources))
	for _, s := range m.Sources {
		problem := ""
		switch {
		case names[s.Name]:
			problem = "two files would be called source/" + Printable(s.Name)
		case slices.ContainsFunc(strings.Split(s.Name, "/"), func(part string) bool { return !fileName(part) }):
			problem = Quote(s.Name) + " is not a file name"
		}
		for i := range len(s.Name) {
			if s.Name[i] == '/' && names[s.Name[:i]] {
				problem = fmt.Sprintf("source/%s would be both a file and a directory", Printable(s.Name[:i]))
			}
		}
		if problem != "" {
			return &FormatError{File: m.Path, Offset: -1, Problem: problem}
		}
		names[s.Name] = true
	}
	return nil
}

// ValidName reports whether s can name a file of a view: not empty, no slash, no
// control byte, neither "." nor "..", at most 255 bytes.
func ValidName(s string) bool {
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	return fileName(s) && !strings.ContainsFunc(s, control)
}

// fileName reports whether s can name a file at all, such as one of the model's,
// which may contain any bytes.
func fileName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= 255 && !strings.ContainsAny(s, "/\x00")
}

// Dim returns the width of the model's hidden state according to its config, 0 if unknown.
func (m *Model) Dim() int64 { return m.ConfigInt("dim") }

// ConfigInt returns a number of the config, 0 where it does not say it.
func (m *Model) ConfigInt(name string) int64 {
	for _, f := range m.Config {
		if n, ok := f.Value.(int64); ok && f.Name == name {
			return n
		}
	}
	return 0
}

// Meta returns the metadata's value under a key, nil if the key is missing.
func (m *Model) Meta(key string) any {
	if i := slices.IndexFunc(m.Metadata, func(e Meta) bool { return e.Key == key }); i >= 0 {
		return m.Metadata[i].Value
	}
	return nil
}

// Tensor returns the tensor of that canonical name, or nil.
func (m *Model) Tensor(name string) *Tensor {
	i, ok := slices.BinarySearchFunc(m.Tensors, name, func(t Tensor, s string) int { return strings.Compare(t.Name, s) })
	if !ok {
		return nil
	}
	return &m.Tensors[i]
}

// TensorBySource returns the tensor that the model's files call so, or nil: the first,
// where several came of one. It looks at all tensors.
func (m *Model) TensorBySource(source string) *Tensor {
	i := slices.IndexFunc(m.Tensors, func(t Tensor) bool { return t.Source == source })
	if i < 0 {
		return nil
	}
	return &m.Tensors[i]
}

// Check returns an error that wraps a ChangedError for every file of the model that changed
// since it was opened, nil if all are unchanged. Files that were never read are not open,
// see File.
func (m *Model) Check() error {
	var errs []error
	for _, f := range m.open() {
		if f, ok := f.(interface{ Check() error }); ok {
			errs = append(errs, f.Check())
		}
	}
	for _, c := range m.last {
		if a, ok := c.(*Model); ok { // an adapter
			errs = append(errs, a.Check())
		}
	}
	return errors.Join(errs...)
}

// Opened returns the files of the model that are open.
func (m *Model) Opened() (list []File) {
	for _, c := range m.open() {
		if f, ok := c.(File); ok {
			list = append(list, f)
		}
	}
	return list
}

// open returns what is open.
func (m *Model) open() []io.Closer {
	files := slices.Clone(m.closers)
	if m.opened != nil {
		m.opened.Lock()
		defer m.opened.Unlock()
		for _, f := range m.opened.files {
			if !slices.Contains(files, io.Closer(f)) {
				files = append(files, f)
			}
		}
	}
	return files
}

// Own makes the model close c when it is closed: after its files, and before what it owns
// already.
func (m *Model) Own(c io.Closer) { m.last = slices.Insert(m.last, 0, c) }

// Close unmaps the model's files. No Data of the model may be used afterwards.
func (m *Model) Close() error {
	closers, last := m.closers, m.last
	m.closers, m.last = nil, nil
	if m.opened != nil {
		m.opened.Lock()
		defer m.opened.Unlock()
		for name, f := range m.opened.files {
			if s, ok := m.source(name); !slices.Contains(closers, io.Closer(f)) && !(ok && s.Adapter) { // an adapter closes its files
				closers = append(closers, f)
			}
		}
		clear(m.opened.files)
	}
	var errs []error
	for _, c := range append(closers, last...) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// source returns the source of that name.
func (m *Model) source(name string) (*Source, bool) {
	i, ok := slices.BinarySearchFunc(m.Sources, name, func(s Source, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil, false
	}
	return &m.Sources[i], true
}

// File returns the content of the source of that name. It is opened the first
// time and stays open as long as the model. The error is [fs.ErrNotExist] where
// the model has no such source.
func (m *Model) File(name string) (Data, error) {
	s, ok := m.source(name)
	if !ok || s.Open == nil {
		return nil, fs.ErrNotExist
	}
	m.opened.Lock()
	defer m.opened.Unlock()
	if f := m.opened.files[name]; f != nil {
		return f, nil
	}
	f, err := s.Open()
	if err != nil {
		return nil, err
	}
	m.opened.files[name] = f
	return f, nil
}
