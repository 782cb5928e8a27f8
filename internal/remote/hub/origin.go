package hub

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// origin forms requests for the bytes of a file, which messages call name.
func (h *hub) origin(s *snapshot, f *file, name string) web.Origin {
	address := h.resolve(s, f.Path)
	return &fileOrigin{f, name, web.Resolved{
		Client: h.o.Client,
		Ask:    func(ctx context.Context) (*http.Request, error) { return h.request(ctx, address) },
		Check: func(resp *http.Response, _ []byte) error {
			switch {
			case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
				return web.ErrVersion(name, "the Hub does not have it any more")
			case resp.StatusCode >= 400:
				return h.refusal(name, resp)
			}
			return f.same(name, s.Commit, resp.Header)
		},
	}}
}

// fileOrigin is a file's.
type fileOrigin struct {
	file *file
	name string
	web.Resolved
}

// tooLarge is beyond what the Hub gives away in one piece: it answers 400 then.
const tooLarge = 400e9

// Refused explains why a large file is refused.
func (o *fileOrigin) Refused(resp *http.Response) error {
	if resp.StatusCode == http.StatusBadRequest && o.file.Size > tooLarge {
		return tensorfs.Unsupported(o.name, fmt.Sprintf("its %d bytes are too large for the Hub's plain download", o.file.Size), "download it with 'hf download'")
	}
	return o.Resolved.Refused(resp)
}

var _ web.Origin = (*fileOrigin)(nil)

// same compares the Hub's description of a resolved file with its entry in the tree.
func (f *file) same(name, commit string, h http.Header) error {
	if got := h.Get("X-Repo-Commit"); isHex(got, commitSize) && got != commit {
		return web.ErrVersion(name, "the Hub has another commit")
	}
	if got, err := strconv.ParseInt(h.Get("X-Linked-Size"), 10, 64); err == nil && got != f.Size {
		return web.ErrVersion(name, fmt.Sprintf("it has %d bytes and not %d", got, f.Size))
	}
	if got := strings.Trim(h.Get("X-Linked-ETag"), `"`); f.SHA256 != "" && isHex(got, 64) && got != f.SHA256 {
		return web.ErrVersion(name, "it has another digest")
	}
	return nil
}

// lookBeside finds the files that Hugging Face's own programs have downloaded of
// the repositories into their cache.
func lookBeside(cache string, repositories []string, items []remote.Item) {
	if cache == "" {
		return
	}
	have := map[string]string{} // by the name of the blob, its path
	for _, repository := range repositories {
		dir := filepath.Join(cache, "models--"+strings.ReplaceAll(repository, "/", "--"), "blobs")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Type().IsRegular() {
				have[e.Name()] = filepath.Join(dir, e.Name())
			}
		}
	}
	for i := range items {
		_, id, _ := strings.Cut(items[i].ID.Key, ":")
		items[i].Local = have[id]
	}
}
