package oci

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Limits of archives.
const (
	maxMembers = 10_000    // of all archives of an artifact
	maxEntries = 1_000_000 // of a layer of a container, in and outside of its folder models
	maxHeaders = 64 << 20  // bytes of the headers of one that is read in place
)

// kind is the kind of an archive's member that is not a file.
type kind string

const (
	symlink  kind = "link"
	hardLink kind = "name"    // another name of a file
	folder   kind = "folder"  // of a container
	gone     kind = "gone"    // of a container: the layers below have no such file or folder
	emptied  kind = "emptied" // of a container: they have nothing in this folder
)

// member is a member of an archive.
type member struct {
	name      string
	off, size int64 // of a file: where in the archive
	kind      kind
	link      string
}

// archiveReader walks through an archive.
type archiveReader struct {
	t     *tar.Reader
	at    func() int64 // how far it has come
	size  int64        // of the archive, negative if that is not known
	image bool         // it is a layer of a container
}

// walk calls add for the members of a plain tar archive; for a container's layer only for
// members of its folder models, and for what it removes. body is a file's content. Devices
// and sparse files are errors: their bytes are not stored as they are.
func (a archiveReader) walk(add func(m member, body io.Reader) error) error {
	most := maxMembers
	if a.image {
		most = maxEntries
	}
	for n := 0; ; n++ {
		h, err := a.t.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrFieldTooLong):
			return fmt.Errorf("is damaged near byte %d", a.at())
		case err != nil:
			return err
		case n == most:
			return fmt.Errorf("has more than %d members", most)
		}
		m, ok, err := a.member(h)
		if err != nil {
			return err
		}
		if ok {
			if err := add(m, a.t); err != nil {
				return err
			}
		}
	}
}

// member returns the member that a header describes; ok is false for members to skip.
func (a archiveReader) member(h *tar.Header) (m member, ok bool, err error) {
	if h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == tar.TypeDir && !a.image {
		return m, false, nil
	}
	m = member{name: strings.TrimPrefix(h.Name, "./"), off: a.at(), size: h.Size}
	if a.image {
		if m.name, m.kind, ok = imageName(h.Name); !ok {
			return m, false, nil
		}
	}
	switch problem := remote.CheckName(m.name); {
	case m.kind == emptied && m.name == ".":
	case problem != "":
		return m, false, fmt.Errorf("holds a name that cannot be: %s %s", tensorfs.Quote(m.name), problem)
	}
	if m.kind != "" {
		return m, true, nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		m.kind = folder
		return m, true, nil
	case tar.TypeReg:
	case tar.TypeSymlink:
		m.kind, m.link = symlink, h.Linkname
		return m, true, nil
	case tar.TypeLink:
		m.kind, m.link = hardLink, h.Linkname
		return m, true, nil
	default:
		return m, false, fmt.Errorf("has %s, which is not a regular file", tensorfs.Quote(h.Name))
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return m, false, fmt.Errorf("has %s, a file with holes", tensorfs.Quote(h.Name))
		}
	}
	if h.Size < 0 || a.size >= 0 && h.Size > a.size-m.off {
		return m, false, fmt.Errorf("ends before the end of %s", tensorfs.Quote(h.Name))
	}
	return m, true, nil
}

// modelsFolder is the folder of containers that is the model.
const modelsFolder = "models"

// whiteout begins the names by which a layer removes what is in the layers below.
const whiteout = ".wh."

// imageName returns what a name in a layer of a container is about; ok is false if it is not
// about the folder models.
func imageName(name string) (_ string, k kind, ok bool) {
	name = path.Clean("/" + name)[1:]
	dir, base := path.Split(name)
	dir = cmp.Or(strings.TrimSuffix(dir, "/"), ".")
	if what, ok := strings.CutPrefix(base, whiteout); ok {
		switch {
		case what == whiteout+".opq":
			name, k = dir, emptied
		case what == "", what == ".", what == "..", strings.HasPrefix(what, whiteout): // drivers note things so
			return "", "", false
		default:
			name, k = path.Join(dir, what), gone
		}
	}
	below := name == modelsFolder || strings.HasPrefix(name, modelsFolder+"/")
	return name, k, below || k == emptied && name == "."
}

// inPlace reads an archive of so many bytes without what is in its files.
func inPlace(r io.ReaderAt, size int64, image bool) archiveReader {
	c := &cursor{r: r, size: size}
	return archiveReader{tar.NewReader(c), func() int64 { return c.off }, size, image}
}

// cursor reads an archive from the front. What is skipped is not read.
type cursor struct {
	r         io.ReaderAt
	off, size int64
	read      int64 // bytes, so far
}

// errHeaders is the error that an archive consists of little else.
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
