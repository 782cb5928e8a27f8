package metal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views"
	"golang.org/x/sys/unix"
)

// kept are the converted tensors of a model that are on disk.
type kept struct {
	tree  *tree
	dir   string // of the cache
	limit int64
	log   *slog.Logger

	warning  sync.Once
	look     sync.Once // for what is there already
	mu       sync.Mutex
	stamp    time.Time             // mtime of all files
	model    *cache.ConvertedModel // nil until something is kept
	root     *os.Root              // of its files; nil before the first was written
	compared map[Ref]compared      // files whose bytes were compared with their sums
}

// errNotLocal marks models whose files are not all of this machine.
var errNotLocal = errors.New("tensors of models on other machines are not kept")

// identity lists everything that the bytes of the tensors depend on, in lines.
func (k *kept) identity() (string, error) {
	lines := []string{fmt.Sprintf("views %d", views.Version), "module " + moduleVersion(), "i2s " + k.tree.opts.I2S}
	more, err := statesOf(k.tree.model)
	if err != nil {
		return "", err
	}
	return strings.Join(append(lines, more...), "\n"), k.tree.model.Check()
}

// statesOf identifies the present versions of a model's files, in lines; for a merge, of
// its models' files.
func statesOf(m *tensorfs.Model) (lines []string, err error) {
	for _, a := range m.Adapters {
		lines = append(lines, "lora "+tensorfs.Quote(a.String()))
	}
	if x := m.Merge; x != nil {
		lines = append(lines, fmt.Sprintf("recipe %x", sha256.Sum256(x.Recipe)))
		for i, of := range x.Models {
			states, err := statesOf(of)
			if err != nil {
				return nil, err
			}
			lines = append(append(lines, "model "+tensorfs.Quote(x.Names[i])), states...)
		}
	}
	for i := range m.Sources {
		s := &m.Sources[i]
		switch {
		case s.Local():
			state, err := stateOf(m, s)
			if err != nil {
				return nil, err
			}
			lines = append(lines, "file "+tensorfs.Quote(s.Name)+" "+state)
		case m.Merge == nil || s.Adapter:
			return nil, errNotLocal
		} // the merge's own files are derived from the rest
	}
	return lines, nil
}

// stateOf identifies the present version of a file: by the digest of its store, which
// touches it, or by the system's facts about the file that the model has open.
func stateOf(m *tensorfs.Model, s *tensorfs.Source) (string, error) {
	var st, named unix.Stat_t
	path, perr := filepath.EvalSymlinks(s.Path)
	if perr == nil {
		perr = unix.Stat(path, &named)
	}
	d, err := m.File(s.Name)
	if err != nil {
		d = nil
	}
	if f, ok := d.(descriptor); ok {
		err = unix.Fstat(f.Descriptor(), &st)
	} else {
		st, err = named, perr
	}
	if err != nil {
		return "", tensorfs.PathError(s.Path, err)
	}
	// The path may be a link, and lead to another file by now.
	same := perr == nil && st.Dev == named.Dev && st.Ino == named.Ino
	// A store renews the times of its files, so a digest replaces them. It is only a name:
	// another directory with the name blobs may have other bytes under it, in a file of its
	// own.
	if digest := source.StoredDigest(path); same && digest != "" {
		return fmt.Sprintf("%d bytes %s inode %d", st.Size, digest, st.Ino), nil
	}
	state := fmt.Sprintf("%d bytes mtime %d.%09d inode %d", st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ino)
	if st.Mtim.Nsec != 0 || d == nil {
		return state, nil
	}
	sum, err := sample(d)
	return state + " sample " + sum, err
}

// sample returns a hash of some bytes of a file, from its beginning to its end. It is for
// files whose mtime is a whole second: in reproducible images all files have one mtime, and
// files of one name often have the same inode too.
func sample(d tensorfs.Data) (string, error) {
	const places = 16
	h, b := sha256.New(), make([]byte, 4096)
	for i := range int64(places) {
		off := d.Size() / places * i
		p := b[:min(int64(len(b)), d.Size()-off)]
		if err := tensorfs.ReadFull(d, p, off); err != nil {
			return "", err
		}
		h.Write(p)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// moduleVersion is the release of this module that the program was built with, as
// far as the Go tool recorded it: others may name tensors in another way.
func moduleVersion() string {
	const module = "github.com/tensorfs/tensorfs"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// open opens the directory of the model in the cache; nil if the cache has none and
// none is to be made.
func (k *kept) open(make bool) (*cache.Converted, *cache.ConvertedModel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	identity, err := k.identity()
	if err != nil {
		return nil, nil, err
	}
	c, err := cache.OpenConverted(k.dir, make)
	if err != nil {
		return nil, nil, err
	}
	if k.stamp.IsZero() {
		k.stamp = stampOf(identity)
	}
	if k.model == nil {
		if k.model, err = c.Model(k.source(), identity, make); err != nil {
			return nil, nil, err
		}
	}
	return c, k.model, nil
}

// stampOf is the mtime of the files of a model of that identity: in whole seconds, which
// every file system keeps, and long before any program could write to them. It differs from
// the model's, which its store may touch.
func stampOf(identity string) time.Time {
	sum := sha256.Sum256([]byte(identity))
	return time.Unix(1e9+int64(binary.BigEndian.Uint32(sum[:])>>4), 0)
}

// source names the model for people.
func (k *kept) source() string {
	if m := k.tree.model; m.Name != "" {
		return m.Name
	}
	return k.tree.model.Path
}

// files returns the directory of the files, nil if it is missing.
func (k *kept) files() *os.Root {
	k.look.Do(func() {
		if _, _, err := k.open(false); err != nil && !errors.Is(err, errNotLocal) {
			k.warn(err)
		}
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.root == nil && k.model != nil {
		k.root, _ = os.OpenRoot(k.model.Dir()) // it is not there before the first file is
	}
	return k.root
}

// file returns the file of a tensor of that size, if it is there.
func (k *kept) file(ref Ref, size int64) (file, bool) {
	if !k.there(ref, size) {
		return nil, false
	}
	f := keptFile{k, ref, size}
	open, err := f.Open()
	if err != nil {
		return nil, false
	}
	open.Close()
	return f, true
}

// there reports whether a tensor of that size has a file, whatever its bytes are.
func (k *kept) there(ref Ref, size int64) bool {
	root := k.files()
	if root == nil || !k.keeps(ref) {
		return false
	}
	st, err := root.Lstat(ref.String())
	return err == nil && k.wrote(st, size)
}

// compare reports whether an open file has the bytes that were written. The first call for
// a file compares all of them.
func (k *kept) compare(ref Ref, root *os.Root, f *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	c := compared{[4]uint64{uint64(st.Dev), st.Ino, uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec)}, false}
	k.mu.Lock()
	last, ok := k.compared[ref]
	k.mu.Unlock()
	if ok && last.file == c.file {
		return last.intact
	}
	if c.intact = cache.Intact(root, ref.String(), f, st.Size); !c.intact && k.log != nil {
		k.log.Warn("a converted tensor in the cache is damaged, or has no checksums; it is converted again",
			"model", tensorfs.Printable(k.source()), "file", tensorfs.Printable(k.path(ref)))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.compared == nil {
		k.compared = map[Ref]compared{}
	}
	k.compared[ref] = c
	return c.intact
}

// compared is what came of comparing a file with its sums.
type compared struct {
	file   [4]uint64 // device, number and ctime
	intact bool
}

// keeps reports whether a tensor may have a file: two whose names differ only in
// case would have the same one where case makes no difference, as on most Macs. Names
// of whole-model files are the model's own, and may be any text.
func (k *kept) keeps(ref Ref) bool {
	return wholeViews[ref.View] == nil && !k.tree.views[ref.View]().alike()[ref.Name]
}

// path is where the file of a tensor is.
func (k *kept) path(ref Ref) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.model == nil {
		return ref.String()
	}
	return filepath.Join(k.model.Dir(), ref.View, ref.Name)
}

// warn logs once why the cache is not used.
func (k *kept) warn(err error) {
	if k.log == nil {
		return
	}
	k.warning.Do(func() {
		k.log.Warn("converted tensors are kept in memory only", "model", tensorfs.Printable(k.source()), "error", tensorfs.OneLine(err.Error()))
	})
}

func (k *kept) close() error {
	k.look.Do(func() {})
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	if k.root != nil {
		err = k.root.Close()
	}
	if k.model != nil {
		err = errors.Join(err, k.model.Close())
	}
	k.root, k.model = nil, nil
	return err
}

// Prepare converts tensors into files of the cache, and skips tensors that have one. If the
// cache cannot keep them it logs that, and the tensors stay without files: only the end of
// ctx, an error of progress and a model that changed are errors.
func (t *tree) Prepare(ctx context.Context, refs []Ref, workers int, progress func(done, total int64) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := t.kept.prepare(ctx, refs, export.Options{
		Jobs: workers,
		Progress: func(total int64) func(int64) {
			var mu sync.Mutex
			done := int64(0)
			return func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				done += n
				if progress != nil && ctx.Err() == nil {
					if err := progress(done, total); err != nil {
						stop(err)
					}
				}
			}
		},
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, tensorfs.ErrChanged), errors.Is(err, ErrAbsent):
		return err
	case err != nil:
		t.kept.warn(err)
	}
	return nil
}

// wanted is a tensor that is to have a file.
type wanted struct {
	Ref
	data tensorfs.Data
}

// missing returns the refs that have no file, each once.
func (k *kept) missing(refs []Ref) ([]wanted, error) {
	var list []wanted
	seen := map[Ref]bool{}
	for _, ref := range refs {
		x, err := k.tree.Tensor(ref)
		if err != nil {
			return nil, err
		}
		if _, ok := k.file(ref, x.Data.Size()); !ok && !seen[ref] && k.keeps(ref) {
			list = append(list, wanted{ref, x.Data})
		}
		seen[ref] = true
	}
	return list, nil
}

// prepare writes what is missing of refs, as far as there is room.
func (k *kept) prepare(ctx context.Context, refs []Ref, o export.Options) error {
	list, err := k.missing(refs)
	if err != nil || len(list) == 0 {
		return err
	}
	c, m, err := k.open(true)
	if err != nil {
		return err
	}
	unlock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	err = k.write(ctx, c, refs, o)
	if errors.Is(err, export.ErrOther) { // what is known of the files is damaged
		if err = k.clear(m.Dir()); err == nil {
			err = k.write(ctx, c, refs, o)
		}
	}
	return err
}

// clear removes all files. Mappings of them stay what they are.
func (k *kept) clear(dir string) error {
	k.mu.Lock()
	if k.root != nil {
		k.root.Close()
		k.root = nil
	}
	k.mu.Unlock()
	return os.RemoveAll(dir)
}

// write is prepare while it holds the lock.
func (k *kept) write(ctx context.Context, c *cache.Converted, refs []Ref, o export.Options) error {
	list, err := k.missing(refs) // another process may have written them
	if err != nil || len(list) == 0 {
		return err
	}
	list, full, err := k.fit(c, list)
	if err != nil {
		return err
	}
	if full != nil {
		k.warn(full)
	}
	if len(list) == 0 {
		return nil
	}
	files := []export.File{
		// It lists the files. While they change it is absent.
		{Path: "index.json", Data: views.Index(k.tree.model, k.index(list)), Last: true},
		{Path: "config.json", Data: tensorfs.Bytes(config.JSON(k.tree.model))},
		{Path: "metadata.json", Data: config.MetadataJSON(k.tree.model.Metadata)},
	}
	for _, w := range list {
		files = append(files, export.File{Path: w.String(), Data: w.data})
	}
	dir := k.model.Dir()
	for _, f := range files { // what is there is not as it was written, or was true before
		if err := os.RemoveAll(filepath.Join(dir, f.Path)); err != nil {
			return err
		}
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	o.Facts = []export.Fact{{What: "model", Is: filepath.Base(filepath.Dir(dir))}}
	o.ModTime = k.stamp
	o.Check = k.tree.model.Check
	tensors := map[string]bool{}
	for _, w := range list {
		tensors[w.String()] = true
	}
	o.Whole = func(path string, f *os.File) error {
		root := k.files()
		switch {
		case !tensors[path]:
			return nil
		case root == nil:
			return os.ErrClosed
		}
		return cache.Seal(root, path, f)
	}
	_, err = export.Run(ctx, dir, files, o)
	return err
}

// blockSize is what file systems give space in.
const blockSize = 4096

// fit returns the first tensors of a list that there is room for; full explains why the
// rest does not fit.
func (k *kept) fit(c *cache.Converted, list []wanted) (_ []wanted, full, err error) {
	need := int64(0)
	for _, w := range list {
		need += w.room()
	}
	room, err := c.Room(need, k.limit)
	if err != nil || room >= need {
		return list, nil, err
	}
	full = fmt.Errorf("the cache has room for %d of %d bytes; free some space, or raise its limit", room, need)
	for i, w := range list {
		if room -= w.room(); room < 0 {
			return list[:i], full, nil
		}
	}
	return list, full, nil
}

// room is what a tensor takes on the disk.
func (w *wanted) room() int64 {
	n := w.data.Size()
	return (n/blockSize + 1 + cache.SumsSize(n)/blockSize + 1) * blockSize
}

// index describes the tensors that have a file, and the tensors of a list.
func (k *kept) index(list []wanted) []views.Built {
	coming := map[Ref]bool{}
	names := map[string][]string{}
	for _, w := range list {
		coming[w.Ref] = true
		names[w.View] = append(names[w.View], w.Name)
	}
	root := k.files()
	var built []views.Built
	for _, name := range k.tree.names {
		if root != nil {
			if d, err := root.Open(name); err == nil {
				there, _ := d.Readdirnames(-1) // an unreadable directory lists nothing
				d.Close()
				names[name] = append(names[name], there...)
			}
		}
		if names[name] == nil {
			continue
		}
		slices.Sort(names[name])
		v := k.tree.views[name]()
		some := &chosen{Tensors: v.Tensors}
		for _, n := range slices.Compact(names[name]) {
			i, ok := slices.BinarySearch(v.names, n)
			ref := Ref{View: name, Name: n}
			if ok && !coming[ref] {
				x := v.Tensors.At(i)
				ok = k.there(ref, x.Data.Size())
			}
			if ok {
				some.at = append(some.at, i)
			}
		}
		built = append(built, views.Built{Name: name, Tensors: some})
	}
	return built
}

// chosen are some tensors of a view.
type chosen struct {
	views.Tensors
	at []int
}

func (c *chosen) Len() int                 { return len(c.at) }
func (c *chosen) Name(i int) string        { return c.Tensors.Name(c.at[i]) }
func (c *chosen) At(i int) tensorfs.Tensor { return c.Tensors.At(c.at[i]) }
