package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Limits of archives.
const (
	maxMembers = 10_000   // of all archives of an artifact
	maxHeaders = 64 << 20 // bytes of the headers of one
)

// member is a regular file in an archive.
type member struct {
	name      string
	off, size int64
}

// walk calls add for the regular files of a plain tar archive of so many bytes. It
// reads the headers alone. Links, devices and files with holes are errors: their
// bytes are not where the archive says that they are.
func walk(r io.ReaderAt, size int64, add func(member) error) error {
	at := &cursor{r: r, size: size}
	t := tar.NewReader(at)
	for n := 0; ; n++ {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrFieldTooLong):
			return fmt.Errorf("is damaged near byte %d", at.off)
		case err != nil:
			return err
		case n == maxMembers:
			return fmt.Errorf("has more than %d members", maxMembers)
		}
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		case tar.TypeLink, tar.TypeSymlink:
			return fmt.Errorf("has a link, %s", tensorfs.Quote(h.Name))
		default:
			return fmt.Errorf("has %s, which is not a regular file", tensorfs.Quote(h.Name))
		}
		for key := range h.PAXRecords {
			if strings.HasPrefix(key, "GNU.sparse.") {
				return fmt.Errorf("has %s, a file with holes", tensorfs.Quote(h.Name))
			}
		}
		if h.Size < 0 || h.Size > size-at.off {
			return fmt.Errorf("ends before the end of %s", tensorfs.Quote(h.Name))
		}
		name := strings.TrimPrefix(h.Name, "./")
		if problem := remote.CheckName(name); problem != "" {
			return fmt.Errorf("holds a name that cannot be: %s %s", tensorfs.Quote(name), problem)
		}
		if err := add(member{name, at.off, h.Size}); err != nil {
			return err
		}
	}
}

// cursor reads an archive from the front. What is skipped is not read.
type cursor struct {
	r         io.ReaderAt
	off, size int64
	read      int64 // bytes, so far
}

// errHeaders says that an archive consists of little else.
var errHeaders = fmt.Errorf("has more than %d MiB of headers", maxHeaders>>20)

// Read implements io.Reader.
func (c *cursor) Read(p []byte) (int, error) {
	if c.read > maxHeaders {
		return 0, errHeaders
	}
	n := min(int64(len(p)), c.size-c.off)
	if n <= 0 {
		return 0, io.EOF
	}
	got, err := c.r.ReadAt(p[:n], c.off)
	c.off += int64(got)
	c.read += int64(got)
	if err == io.EOF && int64(got) == n {
		err = nil
	}
	return got, err
}

// Seek implements io.Seeker, as far as package tar seeks.
func (c *cursor) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || off < 0 || off > c.size-c.off {
		return c.off, errors.New("it cannot go there")
	}
	c.off += off
	return c.off, nil
}
