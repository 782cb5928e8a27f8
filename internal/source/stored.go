package source

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// blobName is how stores that address files by content name them: Ollama's
// sha256-HEX, the Hugging Face cache's SHA-256 of large files and git's id of small
// ones.
var blobName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?:sha256-)?([0-9a-f]{64})|([0-9a-f]{40}))$`)
})

// ReadRegular returns the beginning of a regular file, at most so many bytes. It does not
// wait for the other end of a FIFO.
func ReadRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = tensorfs.NotRegular(path, st.Mode())
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// ParseDigest returns the digest in the name of a blob, as "sha256:HEX" or "git:HEX", "" if
// the name contains none.
func ParseDigest(name string) string {
	switch m := blobName().FindStringSubmatch(name); {
	case m == nil:
		return ""
	case m[1] != "":
		return "sha256:" + m[1]
	default:
		return "git:" + m[2]
	}
}

// StoredDigest returns the digest of a file's bytes that its store encodes in the file's
// name, "" if the file is not in a store.
func StoredDigest(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Base(filepath.Dir(real)) != "blobs" {
		return ""
	}
	return ParseDigest(filepath.Base(real))
}
