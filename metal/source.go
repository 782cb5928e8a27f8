package metal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// filePlan is how a file of the model is cut into windows. It is made when the
// file is first used.
type filePlan struct {
	once   sync.Once
	spans  []span
	starts []int64
	size   int64 // where the last tensor ends
	err    error // why the file cannot be used
}

// SourceInfo says how a file of the model is used.
type SourceInfo struct {
	Name    string // below source/
	Tensors int    // entries of all views that are in it
	Windows int    // device buffers that cover them
	Err     error  // why the mounted files are used in its place; nil where they are not
}

// Sources returns the model's files that tensors could be mapped from directly,
// and why not where they cannot. It opens those that were not used yet.
func (l *Loader) Sources() []SourceInfo {
	infos := make([]SourceInfo, len(l.index.files))
	for i, name := range l.index.files {
		p := l.plan(int32(i))
		infos[i] = SourceInfo{Name: name, Tensors: len(p.spans), Windows: len(p.starts), Err: p.err}
	}
	return infos
}

// plan returns the plan of a file.
func (l *Loader) plan(file int32) *filePlan {
	p := &l.plans[file]
	p.once.Do(func() {
		for vi := range l.index.views {
			v := &l.index.views[vi]
			for ei := range v.entries {
				if e := &v.entries[ei]; e.file == file {
					p.spans = append(p.spans, span{e.offset, e.bytes, int32(vi), int32(ei)})
					p.size = max(p.size, e.offset+e.bytes)
				}
			}
		}
		p.starts = plan(p.spans, l.limit, l.info.PageSize)
		p.err = l.checkSource(file, p)
	})
	return p
}

// probes is how many tensors of a file are compared, probeBytes how much of the
// beginning and end of each.
const (
	probes     = 8
	probeBytes = 4096
)

// checkSource returns an error unless the file that source/ leads to is the one
// that the mount serves: the path may lead to another file by now, and a mapping
// of that would give wrong numbers without an error. Mounted files carry the
// latest mtime of the model's files, so a newer one was changed; and since a
// replacement can be older, a few tensors are compared with what the mount says.
func (l *Loader) checkSource(file int32, p *filePlan) error {
	f, err := l.openSource(file, p.size)
	if err != nil {
		return err
	}
	defer f.Close()
	n := min(probes, len(p.spans))
	for i := range n {
		if err := l.probe(f, p.spans[i*len(p.spans)/n]); err != nil {
			return err
		}
	}
	return nil
}

// probe compares a tensor's beginning and end in a file with the mounted file.
func (l *Loader) probe(source *os.File, s span) error {
	v := &l.index.views[s.view]
	e := &v.entries[s.entry]
	mounted, err := l.openMounted(Ref{v.name, e.name}, e)
	if err != nil {
		return err
	}
	defer mounted.Close()
	old, err := mounted.Stat()
	if err != nil {
		return reword(err)
	}
	now, err := source.Stat()
	if err != nil {
		return err
	}
	if now.ModTime().After(old.ModTime()) {
		return fmt.Errorf("%s was modified after it was mounted", source.Name())
	}
	n := min(s.bytes, probeBytes)
	got, want := make([]byte, n), make([]byte, n)
	for _, off := range []int64{0, s.bytes - n} {
		if _, err := io.ReadFull(io.NewSectionReader(mounted, off, n), want); err != nil {
			return reword(err)
		}
		if _, err := io.ReadFull(io.NewSectionReader(source, s.off+off, n), got); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s is not the file that is mounted", source.Name())
		}
	}
	return nil
}
