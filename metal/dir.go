package metal

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

// directory is a mounted or exported tree.
//
// Where every file says in its extended attributes what it is, as in a mount, it
// is asked itself: opening such a tree costs the same however large it is. Else
// all is in index.json.
type directory struct {
	path  string
	root  *os.Root // stays: what is mounted in its place later is not mistaken for it
	attrs bool     // the files have attributes
	fuse  bool     // and are in a mount, so reads can do without the page cache

	model   ModelInfo
	views   []string
	sources map[string]*sourceFile // by name below source/

	index    func() (*index, error) // read when it is needed
	state    *os.File               // exportState of an exported tree; nil where there is none
	metadata func() (*metadata, error)

	mu      sync.Mutex
	names   map[string][]string // by view
	entries map[Ref]*entry
}

// attrPrefix is that of the attributes.
const attrPrefix = "user.tensorfs."

// openDirectory opens the tree at a path.
func openDirectory(path string) (_ *directory, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, reword(err)
	}
	d := &directory{path: path, root: root, names: map[string][]string{}, entries: map[Ref]*entry{}}
	defer func() {
		if err != nil {
			root.Close()
			d.state.Close()
		}
	}()
	d.index = sync.OnceValues(func() (*index, error) {
		f, err := d.file("index.json", -1, 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("no index.json: is a model mounted here? (tensorfs status)")
		}
		if err != nil {
			return nil, err
		}
		return readIndex(f)
	})
	d.metadata = sync.OnceValues(d.readMetadata)
	var model modelEntry
	if d.attrs, err = d.readSelf(&model); err != nil {
		return nil, err
	}
	if !d.attrs {
		// It stays open, so that no other file gets its inode.
		if d.state, err = root.OpenFile(exportState, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, reword(err)
		}
		x, err := d.index()
		if err != nil {
			return nil, err
		}
		model = x.model
		for name, v := range x.views {
			d.views, d.names[name] = append(d.views, name), v.names
		}
	}
	slices.Sort(d.views)
	d.model, d.sources = model.info(), map[string]*sourceFile{}
	for _, f := range model.Files {
		if name, ok := f.Name.(string); ok && filepath.IsLocal(name) && f.Inode != 0 {
			d.sources[name] = &sourceFile{d: d, state: f, path: sync.OnceValue(func() string { return d.source(name) })}
		}
	}
	return d, nil
}

// readSelf reads what source/ says of the model and its views; false where it
// says nothing.
func (d *directory) readSelf(model *modelEntry) (bool, error) {
	f, err := d.root.OpenFile("source", unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, reword(err)
	}
	defer f.Close()
	for name, into := range map[string]any{"model": model, "views": &d.views} {
		if ok, err := attr(f, name, into); err != nil || !ok {
			d.views = nil
			return false, err
		}
	}
	d.fuse = isFuse(f)
	return true, nil
}

// attr decodes an attribute of a file; false where it has none of that name.
func attr(f *os.File, name string, into any) (bool, error) {
	b := make([]byte, 2<<10)
	n, err := unix.Fgetxattr(int(f.Fd()), attrPrefix+name, b)
	if errors.Is(err, unix.ERANGE) {
		b = make([]byte, 64<<10)
		n, err = unix.Fgetxattr(int(f.Fd()), attrPrefix+name, b)
	}
	switch text, isText := into.(*string); {
	case errors.Is(err, noAttr) || errors.Is(err, unix.ENOTSUP):
		return false, nil
	case err != nil:
	case isText:
		*text = string(b[:n])
	default:
		err = json.Unmarshal(b[:n], into)
	}
	if err != nil {
		return false, fmt.Errorf("%s: attribute %s: %w", f.Name(), name, reword(err))
	}
	return true, nil
}

func (d *directory) Model() ModelInfo { return d.model }
func (d *directory) Views() []string  { return d.views }

// Names lists a view. A mount that is gone has no names.
func (d *directory) Names(view string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if names, ok := d.names[view]; ok || !slices.Contains(d.views, view) {
		return names
	}
	f, err := d.root.OpenFile(view, unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	d.names[view] = names
	return names
}

// entry returns what is known of a tensor.
func (d *directory) entry(ref Ref) (*entry, error) {
	d.mu.Lock()
	e := d.entries[ref]
	d.mu.Unlock()
	if e != nil {
		return e, nil
	}
	var err error
	switch {
	case !slices.Contains(d.views, ref.View):
		return nil, NoView(ref.View, d.views)
	case strings.Contains(ref.Name, "/") || !fs.ValidPath(ref.String()):
		return nil, fmt.Errorf("%q is not the name of a file: %w", ref.Name, ErrAbsent)
	case d.attrs:
		e, err = d.ask(ref)
	default:
		var x *index
		if x, err = d.index(); err == nil {
			e, err = x.entry(ref)
		}
	}
	if err != nil {
		return nil, err
	}
	if e == nil {
		why := ""
		if x, err := d.index(); err == nil {
			why = x.reason(ref)
		}
		return nil, NoTensor(ref, why)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries[ref] = e
	return e, nil
}

// ask returns what a file says of itself, nil where it is not there.
func (d *directory) ask(ref Ref) (*entry, error) {
	f, err := d.file(ref.String(), -1, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, reword(err)
	}
	e := &entry{Bytes: st.Size()}
	for name, into := range map[string]any{
		"dtype": &e.DType, "shape": &e.Shape, "extents": &e.Extents, "quant": &e.Quant, "sections": &e.Sections, "engine_dtype": &e.Engine,
	} {
		if _, err := attr(f, name, into); err != nil {
			return nil, err
		}
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("%s: attributes: %w", f.Name(), err)
	}
	return e, nil
}

func (d *directory) Info(view, name string) (TensorInfo, error) {
	ref := Ref{view, name}
	e, err := d.entry(ref)
	if err != nil {
		return TensorInfo{}, err
	}
	info := TensorInfo{Ref: ref, DType: e.DType, Shape: e.Shape, Bytes: e.Bytes, Sections: e.Sections, Quant: e.Quant, EngineDType: -1}
	if e.Engine != nil {
		info.EngineDType = *e.Engine
	}
	return info, nil
}

// Extents has the model's file, where it is still the one that is mounted, and
// the mounted file.
func (d *directory) Extents(view, name string) ([]Extent, error) {
	ref := Ref{view, name}
	e, err := d.entry(ref)
	if err != nil {
		return nil, err
	}
	all := make([]Extent, 0, 2)
	if len(e.Extents) == 1 && e.Extents[0].Bytes == e.Bytes {
		x := &e.Extents[0]
		file, _ := x.File.(string)
		if s := d.sources[file]; s != nil && s.check() == nil {
			all = append(all, Extent{s, x.Offset, x.Bytes, OriginModel})
		}
	}
	return append(all, Extent{treeFile{d, ref, e.Bytes}, 0, e.Bytes, OriginCache}), nil
}

// Open opens a file of the tree. Reads of a mount go past the page cache where
// they can: the bytes are about to be kept elsewhere, and the server reads ahead
// of no one then.
func (d *directory) Open(view, name string) (Bytes, error) {
	ref := Ref{view, name}
	e, err := d.entry(ref)
	if err != nil {
		return nil, err
	}
	if d.fuse {
		if f, err := d.file(ref.String(), e.Bytes, directRead); err == nil {
			return directFile{plainFile{f, e.Bytes}}, nil
		}
	}
	f, err := d.file(ref.String(), e.Bytes, 0)
	if err != nil {
		return nil, err
	}
	return plainFile{f, e.Bytes}, nil
}

// file opens a regular file of the tree, of size bytes unless that is -1. It waits
// for no FIFO, and the root lets no name lead out of the tree. A file of an export
// that took the place of the one that was opened is an error: exportState is replaced
// before the first of its files comes, so it is looked at after the file was opened.
func (d *directory) file(name string, size int64, flags int) (*os.File, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, reword(err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		err = reword(err)
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", f.Name())
	case size >= 0 && st.Size() != size:
		err = fmt.Errorf("%s has %d bytes and should have %d; open the tree anew", f.Name(), st.Size(), size)
	case !d.attrs && !d.unchanged():
		err = fmt.Errorf("%s is of another export, which took the place of the one that was opened; open the tree anew", f.Name())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// exportState is the file of an exported tree that says of which model it is, as
// internal/export names it.
const exportState = ".tensorfs-export/state.json"

// unchanged reports whether the tree is of the export that was opened. One whose
// state was removed since is.
func (d *directory) unchanged() bool {
	now, err := d.root.Lstat(exportState)
	if err != nil || d.state == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	then, err := d.state.Stat()
	return err == nil && os.SameFile(now, then)
}

// Config returns the tree's config.json.
func (d *directory) Config() ([]byte, error) {
	f, err := d.file("config.json", -1, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxValue+1))
	if err == nil && len(b) > maxValue {
		err = fmt.Errorf("config.json has more than %d bytes", maxValue)
	}
	return b, reword(err)
}

// metadata is metadata.json.
type metadata struct {
	text textFile
	keys *object
}

func (d *directory) readMetadata() (*metadata, error) {
	f, err := d.file("metadata.json", -1, 0)
	if err != nil {
		return nil, err
	}
	m := &metadata{text: textFile{f}}
	err = m.text.read(func(dec *jsontext.Decoder) (err error) {
		left := maxNames
		m.keys, err = readObject(dec, &left)
		return err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("metadata.json: %w", reword(err))
	}
	return m, nil
}

func (d *directory) Metadata(key string) (value any, ok bool, err error) {
	m, err := d.metadata()
	if errors.Is(err, fs.ErrNotExist) { // an exported tree may be without
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	at, ok := m.keys.find(key)
	if !ok {
		return nil, false, nil
	}
	text, err := m.text.value(at)
	if err == nil {
		dec := stdjson.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&value)
	}
	if err != nil {
		return nil, false, fmt.Errorf("metadata.json: %q: %w", key, reword(err))
	}
	return value, true, nil
}

// Close closes the directory and the texts that were read. Those that were not
// cannot be any more.
func (d *directory) Close() error {
	errs := []error{d.root.Close()}
	if d.state != nil {
		errs = append(errs, d.state.Close())
	}
	if x, err := d.index(); err == nil {
		errs = append(errs, x.text.Close())
	}
	if m, err := d.metadata(); err == nil {
		errs = append(errs, m.text.Close())
	}
	return errors.Join(errs...)
}

var _ Tree = (*directory)(nil)
