package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/environ"
	protocol "github.com/tensorfs/tensorfs/internal/remote"
	hubfiles "github.com/tensorfs/tensorfs/internal/remote/hub"
	registry "github.com/tensorfs/tensorfs/internal/remote/ollama"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Repaired is the result of [Client.Repair].
type Repaired struct {
	Compared int      // copies on this machine that were compared with their digests
	Broken   []string // names of the files whose copies were fetched again
	Bytes    int64    // the size of these files
}

// Repair compares the files that the Hugging Face cache, or Ollama's store, has of a model with the digests that its
// server states, and fetches those again that differ: hf:ORG/NAME[@REVISION], all of the commit that this machine has, or
// ollama:NAME[:TAG]. Of other names, whose files are only in the cache of the Client, it repairs nothing: what the disk
// changed there is fetched again when it is read.
func (c *Client) Repair(ctx context.Context, name string) (r Repaired, err error) {
	repair := repairHub
	switch {
	case strings.HasPrefix(name, ollama.Prefix):
		repair = repairOllama
	case !strings.HasPrefix(name, hub.Prefix):
		return r, nil
	}
	if err := c.beginRepair(name); err != nil {
		return r, err
	}
	defer c.end()
	done, err := repair(ctx, name, c.protocol())
	return Repaired(done), err
}

// beginRepair is begin for a repair, which fetches and so is refused offline.
func (c *Client) beginRepair(name string) error {
	if c.opts.Offline != "" {
		return fmt.Errorf("%s: what is broken is fetched again, and %s forbids it", conceal.Name(name), c.opts.Offline)
	}
	return c.begin()
}

// RepairDirectory is [Client.Repair] of a directory to which "hf download --local-dir" brought a repository, hf:ORG/NAME: the
// name of the repository is not noted there. Files that were written to since, or that the download has no record of, are
// left as they are.
func (c *Client) RepairDirectory(ctx context.Context, name, dir string) (r Repaired, err error) {
	if err := c.beginRepair(name); err != nil {
		return r, err
	}
	defer c.end()
	n, err := hub.ParseName(strings.TrimPrefix(name, hub.Prefix))
	if err != nil {
		return r, err
	}
	recorded, err := source.Recorded(dir)
	if err != nil {
		return r, err
	}
	commits := map[string]bool{}
	for _, record := range recorded {
		commits[record.Commit] = true
	}
	for _, commit := range slices.Sorted(maps.Keys(commits)) { // later downloads bring only what has changed
		l, _, err := hubfiles.Open(ctx, n.Repository, commit, c.protocol())
		if err != nil {
			return r, err
		}
		done, err := l.Repair(ctx, func(x *protocol.Item) string {
			if recorded[x.Name].Commit != commit {
				return ""
			}
			return filepath.Join(dir, filepath.FromSlash(x.Name))
		})
		l.Close()
		r.Compared, r.Broken, r.Bytes = r.Compared+done.Compared, append(r.Broken, done.Broken...), r.Bytes+done.Bytes
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func repairHub(ctx context.Context, name string, o protocol.Options) (r protocol.Repaired, err error) {
	n, err := hub.ParseName(strings.TrimPrefix(name, hub.Prefix))
	if err != nil {
		return r, err
	}
	n.Select = pick.Select{}
	if o.HubCache, err = environ.HuggingFaceCache(environ.Process); err != nil { // there is no home, so no cache
		return r, nil
	}
	folder, err := hubfiles.Folder(n.Repository)
	if err != nil {
		return r, err
	}
	// The files of the commit that is here, which may not be the server's newest.
	revision := n.Revision
	if ref, err := source.ReadRegular(filepath.Join(o.HubCache, folder, "refs", filepath.FromSlash(cmp.Or(revision, "main"))), 1<<16); err == nil {
		revision = strings.TrimSpace(string(ref))
	}
	l, _, err := hubfiles.Open(ctx, n.Repository, revision, o)
	if err != nil {
		return r, err
	}
	defer l.Close()
	return l.Repair(ctx, func(x *protocol.Item) string { return x.Local })
}

func repairOllama(ctx context.Context, name string, o protocol.Options) (r protocol.Repaired, err error) {
	l, _, err := registry.Open(ctx, strings.TrimPrefix(name, ollama.Prefix), o)
	if err != nil {
		return r, err
	}
	defer l.Close()
	return l.Repair(ctx, func(x *protocol.Item) string {
		kind, hex, _ := strings.Cut(x.ID.Digest, ":")
		for _, store := range environ.OllamaStores(environ.Process) {
			path := filepath.Join(store.Path, "blobs", kind+"-"+hex)
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				return path
			}
		}
		return ""
	})
}
