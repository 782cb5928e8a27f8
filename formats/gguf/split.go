package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// The keys of a shard. A model may be split into files PREFIX-00001-of-00003.gguf
// and so on, each a GGUF file of its own; normally only the first has the model's
// metadata. Names count from 1, split.no from 0.
const (
	keyNo      = "split.no"
	keyCount   = "split.count"
	keyTensors = "split.tensors.count"
)

// Shard parses the name of a shard's file, or its path: PREFIX-00002-of-00003.gguf
// is number 2 of 3. The prefix may be anything. ok is false for any other name.
func Shard(name string) (prefix string, number, count int64, ok bool) {
	const form = "-00000-of-00000.gguf"
	at := len(name) - len(form)
	if at < 0 {
		return "", 0, 0, false
	}
	for i := range len(form) {
		c := name[at+i]
		if form[i] != '0' && c != form[i] || form[i] == '0' && (c < '0' || c > '9') {
			return "", 0, 0, false
		}
	}
	number, _ = strconv.ParseInt(name[at+1:at+6], 10, 64) // five digits
	count, _ = strconv.ParseInt(name[at+10:at+15], 10, 64)
	return name[:at], number, count, true
}

// ShardName is the name of such a file, number from 1 on.
func ShardName(prefix string, number, count int64) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, number, count)
}

// Shards returns the number of files in the model that f belongs to.
func (f *File) Shards() (int64, error) {
	n, present, err := f.splitValue(keyCount)
	if err != nil || !present || n == 0 {
		return 1, err
	}
	return n, nil
}

// splitValue returns the value of one of the keys above.
func (f *File) splitValue(key string) (n int64, present bool, err error) {
	v := f.Value(key)
	if v == nil {
		return 0, false, nil
	}
	n, ok := integer(v)
	switch {
	case !ok:
		return 0, true, f.errorAt(-1, -1, "metadata key %q must be an integer, not %s", key, kindOf(v))
	case n < 0:
		return 0, true, f.errorAt(-1, -1, "metadata key %q is %d, which is negative", key, n)
	}
	return n, true, nil
}

// openSet opens the other shards of a model of count shards. first is one of
// them, in the file called name. openSet returns all shards in order, first
// included. With an error it returns the shards that it opened, for the caller to
// close.
func openSet(src source.FS, name string, first *File, count int64) ([]*File, error) {
	dir, base := path.Split(name)
	prefix, number, total, ok := Shard(base)
	if !ok {
		if whole, err := first.wholeSet(); whole || err != nil {
			return []*File{first}, err
		}
		if at := first.secondHeader(); at >= 0 {
			e := first.errorAt(-1, at, "it is one of %d shards, and another follows it in the same file", count)
			e.Advice = "fetch the shards again, each as a file of its own: what joins them is llama-gguf-split --merge, not cat"
			return []*File{first}, e
		}
		e := first.errorAt(-1, -1, "it is one of %d shards, but its name does not say which", count)
		e.Advice = fmt.Sprintf("rename the shards to PREFIX-00001-of-%05d.gguf and so on", count)
		return []*File{first}, e
	}
	if total != count {
		e := first.errorAt(-1, -1, "it is one of %d shards by its name, but %s is %d", total, keyCount, count)
		e.Advice = "rename the shards as they were published"
		return []*File{first}, e
	}
	if number < 1 || number > count {
		e := first.errorAt(-1, -1, "it is shard %d of %d by its name, but shards are numbered from 1", number, count)
		e.Advice = "rename the shards as they were published"
		return []*File{first}, e
	}
	files := []*File{first}
	shard := func(i int64) string { return dir + ShardName(prefix, i, count) }
	var others []string
	for i := int64(1); i <= count; i++ {
		if i != number {
			others = append(others, shard(i))
		}
	}
	defer source.Prepare(src, others)()
	for i := int64(1); i <= count; i++ {
		if i == number {
			continue
		}
		f, err := openShard(src, shard(i), i, count)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	// the shard that was named was parsed first; it belongs at its number
	copy(files, files[1:number])
	files[number-1] = first
	for i, f := range files {
		if err := f.checkShard(int64(i), count); err != nil {
			return files, err
		}
	}
	return files, checkSet(files)
}

// wholeSet reports whether f has all tensors of its set: a joined model that kept the keys of
// its shards.
func (f *File) wholeSet() (bool, error) {
	n, present, err := f.splitValue(keyTensors)
	return present && n == int64(len(f.Tensors)), err
}

// secondHeader returns where another GGUF file begins behind the last tensor of f, or -1.
func (f *File) secondHeader() int64 {
	end := int64(0)
	for i, at := range f.Offsets {
		end = max(end, at+f.Tensors[i].Data.Size())
	}
	padded := (end + f.Alignment - 1) / f.Alignment * f.Alignment
	for _, at := range []int64{end, padded} {
		b := make([]byte, len(magic))
		if n, _ := f.file.ReadAt(b, at); n == len(b) && string(b) == magic {
			return at
		}
	}
	return -1
}

// openShard opens one more shard.
func openShard(src source.FS, name string, number, count int64) (*File, error) {
	f, err := openFile(src, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &tensorfs.FormatError{
			File: src.Location(name), Offset: -1, Problem: fmt.Sprintf("shard %d of %d is missing", number, count),
			Advice: "put all shards into one directory", Kind: tensorfs.ErrMissing,
		}
	}
	return f, err
}

// checkShard checks that f's own metadata describes shard index of count.
func (f *File) checkShard(index, count int64) error {
	const mixed = "the files are not shards of one model, or were renamed: fetch the set again"
	n, err := f.Shards()
	if err != nil {
		return err
	}
	if n != count {
		e := f.errorAt(-1, -1, "%s is %d here, but %d in the set", keyCount, n, count)
		e.Advice = mixed
		return e
	}
	no, present, err := f.splitValue(keyNo)
	if err != nil {
		return err
	}
	if !present {
		return f.errorAt(-1, -1, "it is a shard without %s", keyNo)
	}
	if no != index {
		e := f.errorAt(-1, -1, "%s is %d, but by its name it should be %d", keyNo, no, index)
		e.Advice = mixed
		return e
	}
	return nil
}

// checkSet checks what shards must agree on: metadata, the number of tensors, and
// that no name is in two of them.
func checkSet(files []*File) error {
	const mixed = "the files are not shards of one model: fetch the set again"
	total := int64(0)
	for _, f := range files {
		total += int64(len(f.Tensors))
	}
	owners := make(map[string]*File, total)
	values := make(map[string]any)
	for _, f := range files {
		n, present, err := f.splitValue(keyTensors)
		if err != nil {
			return err
		}
		if present && n != total {
			e := f.errorAt(-1, -1, "%s is %d, but the shards have %d tensors", keyTensors, n, total)
			e.Advice = mixed
			return e
		}
		for i := range f.Tensors {
			name := f.Tensors[i].Source
			if other, ok := owners[name]; ok {
				e := f.errorAt(i, -1, "it is in %s as well", tensorfs.Printable(other.file.Path()))
				e.Advice = mixed
				return e
			}
			owners[name] = f
		}
		for _, m := range f.Metadata {
			v, ok := values[m.Key]
			if !ok {
				values[m.Key] = m.Value
			} else if m.Key != keyNo && m.Key != keyAlignment && !same(v, m.Value) {
				e := f.errorAt(-1, -1, "metadata key %s has another value in an earlier shard", tensorfs.Quote(m.Key))
				e.Advice = mixed
				return e
			}
		}
	}
	return nil
}
