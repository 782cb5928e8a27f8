package hf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"golang.org/x/sys/unix"
)

// maxJSON bounds the JSON files of a model. The index of 90,000 tensors has 10 MB.
const maxJSON = 100 << 20

// optionalObject reads a JSON file that need not be there.
func optionalObject(path string) (jsonobj.Object, error) {
	ok, err := exists(path)
	if err != nil || !ok {
		return jsonobj.Object{}, err
	}
	return readObject(path)
}

// readObject reads a JSON file whose top is an object.
func readObject(path string) (jsonobj.Object, error) {
	b, err := readSmall(path)
	if err != nil {
		return jsonobj.Object{}, err
	}
	o, err := jsonobj.Parse(b)
	if s, ok := errors.AsType[*jsonobj.SyntaxError](err); ok {
		return o, &tensorfs.FormatError{File: path, Offset: s.Offset, Problem: s.Problem}
	}
	return o, err
}

// readSmall reads a regular file of at most maxJSON bytes. It never blocks on a
// FIFO.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, tensorfs.PathError(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, tensorfs.NotRegular(path, st.Mode())
	case st.Size() > maxJSON:
		return nil, &tensorfs.FormatError{File: path, Offset: -1, Problem: fmt.Sprintf("its %d bytes exceed the limit of %d for JSON files", st.Size(), maxJSON)}
	}
	b := make([]byte, st.Size())
	n, err := io.ReadFull(f, b)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(path), reason(err))
	}
	return b[:n], nil
}
