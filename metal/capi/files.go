package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/parallel"
)

// piece is how much of a tensor one core reads at a time.
const piece = 4 << 20

//export tensorfsgo_read
func tensorfsgo_read(p *C.tensorfs_loader, view, name C.tensorfs_string, first, end C.int64_t, memory unsafe.Pointer, n C.uint64_t, errp **C.tensorfs_error) C.tensorfs_status {
	l, err := use(p)
	if err != nil {
		return fail(errp, err)
	}
	defer l.calls.RUnlock()
	return fail(errp, l.read(view, name, int64(first), int64(end), memory, uint64(n)))
}

// read reads rows of a tensor.
func (l *loader) read(view, name C.tensorfs_string, first, end int64, memory unsafe.Pointer, n uint64) error {
	ref, err := tensorOf(view, name)
	if err != nil {
		return err
	}
	x, err := l.Info(ref.View, ref.Name)
	if err != nil {
		return err
	}
	rows, size := int64(1), x.Data.Size()
	if len(x.Shape) > 0 {
		rows = x.Shape[0]
	}
	if first < 0 || first > end || end > rows {
		return fmt.Errorf("%w: rows %d to %d of %s, which has %d", errInvalid, first, end, ref, rows)
	}
	from, want := int64(0), size
	if first > 0 || end < rows {
		if plain, ok := x.DType.Size(x.Shape); !ok || plain != size || size%rows != 0 {
			return fmt.Errorf("%w: the bytes of %s are not row by row: read all of them", errInvalid, ref)
		}
		from, want = size/rows*first, size/rows*(end-first)
	}
	if n != uint64(want) || n > 0 && memory == nil {
		return fmt.Errorf("%w: rows %d to %d of %s take %d bytes, and there are %d at %p", errInvalid, first, end, ref, want, n, memory)
	}
	b := unsafe.Slice((*byte)(memory), n)
	pieces := (len(b) + piece - 1) / piece
	return parallel.Each(context.Background(), runtime.GOMAXPROCS(0), pieces, func(ctx context.Context, i int) error {
		at := i * piece
		return tensorfs.ReadFullContext(ctx, x.Data, b[at:min(at+piece, len(b))], from+int64(at))
	})
}

// entry returns what the tree has at a path.
func (l *loader) entry(path C.tensorfs_string) (tensorfs.Entry, error) {
	name, err := goString(path, "path")
	if err != nil {
		return tensorfs.Entry{}, err
	}
	t := l.Tree()
	name = strings.TrimSuffix(name, "/")
	if name == "" {
		return tensorfs.Entry{Dir: t.Root}, nil
	}
	e, err := tensorfs.Find(t.Root, name)
	if err != nil {
		if why := t.WhyAbsent(name); why != "" {
			err = fmt.Errorf("%w: %s", err, why)
		}
	}
	return e, err
}

//export tensorfsgo_files
func tensorfsgo_files(p *C.tensorfs_loader, directory C.tensorfs_string, count *C.size_t, errp **C.tensorfs_error) *C.tensorfs_string {
	key, name := "files", strings.TrimSuffix(C.GoString(directory), "/")
	if directory != nil {
		key += "\x00" + name
	}
	return listed(p, count, errp, key, func(l *loader, a *arena) ([]C.tensorfs_string, error) {
		e, err := l.entry(directory)
		if err != nil {
			return nil, err
		}
		if e.Dir == nil {
			return nil, fmt.Errorf("%w: %s is no directory", errInvalid, tensorfs.Quote(name))
		}
		names := make([]string, e.Dir.Len())
		for i := range names {
			x := e.Dir.Entry(i)
			if names[i] = x.Name; x.Dir != nil {
				names[i] += "/"
			}
		}
		return a.strings(names), nil
	})
}

// data returns a file's content. What source/ links to is a file of the model.
func (l *loader) data(path C.tensorfs_string) (tensorfs.Data, error) {
	e, err := l.entry(path)
	if name, ok := strings.CutPrefix(C.GoString(path), "source/"); err == nil && ok && e.Link != "" {
		return l.Model().File(name)
	}
	if err == nil && e.Data == nil {
		err = fmt.Errorf("%w: %s is no file", errInvalid, tensorfs.Quote(C.GoString(path)))
	}
	return e.Data, err
}

//export tensorfsgo_file_size
func tensorfsgo_file_size(p *C.tensorfs_loader, path C.tensorfs_string, errp **C.tensorfs_error) C.int64_t {
	return with(p, errp, -1, func(l *loader) (C.int64_t, error) {
		d, err := l.data(path)
		if err != nil {
			return -1, err
		}
		return C.int64_t(d.Size()), nil
	})
}

//export tensorfsgo_file_read
func tensorfsgo_file_read(p *C.tensorfs_loader, path C.tensorfs_string, offset C.int64_t, memory unsafe.Pointer, n C.uint64_t, errp **C.tensorfs_error) C.int64_t {
	return with(p, errp, -1, func(l *loader) (C.int64_t, error) {
		d, err := l.data(path)
		if err != nil {
			return -1, err
		}
		if offset < 0 || memory == nil && n > 0 {
			return -1, fmt.Errorf("%w: %d bytes from %d on, to %p", errInvalid, n, offset, memory)
		}
		left := max(d.Size()-int64(offset), 0)
		b := unsafe.Slice((*byte)(memory), min(uint64(n), uint64(left)))
		if got, err := d.ReadAt(b, int64(offset)); got < len(b) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return -1, err
		}
		return C.int64_t(len(b)), nil
	})
}
