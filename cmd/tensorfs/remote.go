package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	remotehub "github.com/tensorfs/tensorfs/internal/remote/hub"
	"github.com/tensorfs/tensorfs/internal/remote/oci"
	registry "github.com/tensorfs/tensorfs/internal/remote/ollama"
	"github.com/tensorfs/tensorfs/internal/remote/plain"
	"github.com/tensorfs/tensorfs/internal/remote/s3"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/term"
	"github.com/tensorfs/tensorfs/internal/web"
)

// asking is with what a server is asked.
type asking struct {
	client   *web.Client
	store    *cache.Store
	offline  bool
	download bool
	progress func(what string, total int64) (add func(n int64), end func())
}

// protocol is how models are found whose names begin with prefix. open returns the
// files, the model among them ("." for all), and the name of what was found, without
// secrets.
type protocol struct {
	prefix string
	open   func(ctx context.Context, name string, a *asking) (l *remote.Listing, file, pinned string, err error)
}

var protocols = []protocol{
	{"hf:", openHub},
	{"ollama:", openRegistry},
	{"oci://", openArtifact},
	{"s3://", openBucket},
	{"https://", openPlain},
	{"http://", openPlain},
}

// openHub opens a commit of a repository. What follows its revision is a path in it.
func openHub(ctx context.Context, name string, a *asking) (*remote.Listing, string, string, error) {
	n, err := hub.ParseName(strings.TrimPrefix(name, hub.Prefix))
	if err != nil {
		return nil, "", "", err
	}
	local, _ := source.HuggingFaceCache() // without a home there is none
	l, rest, err := remotehub.Open(ctx, n.Repository, n.Revision, remotehub.Options{Client: a.client, Store: a.store, Offline: a.offline, Cache: local})
	if err != nil {
		return nil, "", "", err
	}
	return l, cmp.Or(rest, "."), l.Name, nil
}

func openRegistry(ctx context.Context, name string, a *asking) (*remote.Listing, string, string, error) {
	l, file, err := registry.Open(ctx, strings.TrimPrefix(name, ollama.Prefix), registry.Options{Client: a.client, Store: a.store, Offline: a.offline})
	if err != nil {
		return nil, "", "", err
	}
	return l, file, l.Name, nil
}

func openArtifact(ctx context.Context, name string, a *asking) (*remote.Listing, string, string, error) {
	l, file, err := oci.Open(ctx, name, oci.Options{Client: a.client, Store: a.store, Offline: a.offline})
	if err != nil {
		return nil, "", "", err
	}
	return l, file, l.Name, nil
}

func openBucket(ctx context.Context, name string, a *asking) (*remote.Listing, string, string, error) {
	l, file, err := s3.Open(ctx, name, s3.Options{Client: a.client, Store: a.store, Offline: a.offline})
	if err != nil {
		return nil, "", "", err
	}
	return l, file, l.Name, nil
}

func openPlain(ctx context.Context, name string, a *asking) (*remote.Listing, string, string, error) {
	l, file, err := plain.Open(ctx, name, plain.Options{Client: a.client, Store: a.store, Offline: a.offline, Download: a.download, Progress: a.progress})
	return l, file, plain.Shown(name), err
}

// publicAddress replaces what says which addresses belong to the Internet. Tests
// set it.
var publicAddress func(netip.Addr) bool

// remoteFlags are the flags of commands that open models which may be on other
// machines.
type remoteFlags struct {
	offline, ask, download, plainHTTP bool
	cache                             string
	cacheSize                         cacheSize
	timeout                           time.Duration

	stderr  func() io.Writer // for progress
	waiting notice           // whom a model is asked for
	logger  *slog.Logger     // nil: what nobody is told is not said

	// One client and one store serve all models of a command, from the first that is
	// asked for until the last is closed. Models of this machine open neither.
	mu     sync.Mutex
	users  int
	client *web.Client
	store  *cache.Store
}

// cacheSize is a size, or none.
type cacheSize struct {
	byteSize
	given bool
}

// String returns what was given.
func (s *cacheSize) String() string {
	if !s.given {
		return ""
	}
	return s.byteSize.String()
}

// Set parses a size.
func (s *cacheSize) Set(text string) error {
	s.given = true
	return s.byteSize.Set(text)
}

var _ pflag.Value = (*cacheSize)(nil)

func (f *remoteFlags) add(s system, c *cobra.Command) {
	f.stderr = c.ErrOrStderr
	s.define(c, "", flags{
		"offline": &f.offline, "remote": &f.ask, "cache": &f.cache, "cache-size": &f.cacheSize, "timeout": &f.timeout,
		"download": &f.download, "plain-http": &f.plainHTTP,
	})
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if err == nil && f.logger == nil { // a server's log says it
				err = f.wrong()
			}
			return err
		}
	}
}

// wrong returns the error of bytes that came and proved to be wrong, perhaps only
// when the model was closed.
func (f *remoteFlags) wrong() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store == nil {
		return nil
	}
	return f.store.Mismatch()
}

// offlineNames are the variables that forbid asking. The last two are those of
// Hugging Face's own programs.
var offlineNames = []string{"TENSORFS_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}

// forbids returns what forbids to ask other machines, "" if nothing does.
func (f *remoteFlags) forbids() string {
	if f.offline {
		return "--offline"
	}
	for _, name := range offlineNames {
		if slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(os.Getenv(name))) {
			return name
		}
	}
	return ""
}

// check takes the values of the flags.
func (f *remoteFlags) check() error {
	if f.timeout < 0 {
		return usageError{fmt.Errorf("--timeout %s: want a time like 30s", f.timeout)}
	}
	return nil
}

// absolute makes the place of the cache independent of the working directory.
func (f *remoteFlags) absolute() (err error) {
	if dir := cmp.Or(f.cache, os.Getenv("TENSORFS_CACHE")); dir != "" {
		f.cache, err = filepath.Abs(dir)
	}
	return err
}

// maxHost is how much of a host's name is shown, which a server may have redirected to.
const maxHost = 60

// notice begins to say on a terminal whom a model is asked for.
func (f *remoteFlags) notice() (end func()) {
	if f.stderr == nil {
		return func() {}
	}
	return f.waiting.begin(f.stderr())
}

// find finds a model on another machine.
func (f *remoteFlags) find(name string) (formats.Elsewhere, error) {
	i := slices.IndexFunc(protocols, func(p protocol) bool { return strings.HasPrefix(name, p.prefix) })
	if i < 0 {
		var known []string
		for _, p := range protocols {
			known = append(known, p.prefix)
		}
		return formats.Elsewhere{}, &tensorfs.FormatError{File: publicName(name), Offset: -1, Problem: "models cannot be read from such an address",
			Advice: "names of models elsewhere begin with " + strings.Join(known, ", "), Kind: tensorfs.ErrUnsupported}
	}
	why := f.forbids()
	if err := f.begin(why != ""); err != nil {
		return formats.Elsewhere{}, err
	}
	a := &asking{client: f.client, store: f.store, offline: why != "", download: f.download}
	if f.stderr != nil {
		a.progress = func(what string, total int64) (func(int64), func()) {
			f.waiting.end() // the bar says more
			return progressLater(f.stderr(), what, total)
		}
	}
	l, file, pinned, err := protocols[i].open(context.Background(), name, a)
	if err != nil {
		f.end()
		if e, ok := errors.AsType[*tensorfs.FormatError](err); ok && why != "" {
			e.Problem = strings.ReplaceAll(e.Problem, "--offline", why)
		}
		return formats.Elsewhere{}, err
	}
	l.Progress = a.progress
	return formats.Elsewhere{FS: &lent{Listing: l, end: sync.OnceFunc(f.end)}, File: file, Name: pinned, Note: l.Note}, nil
}

// lent is a listing that gives back the client and the store.
type lent struct {
	*remote.Listing
	end func()
}

// Close ends the use of the listing, whose files are closed.
func (l *lent) Close() error {
	err := l.Listing.Close()
	l.end()
	return err
}

// begin opens client and store for one more user.
func (f *remoteFlags) begin(offline bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users > 0 {
		f.users++
		return nil
	}
	o := cache.Options{Dir: f.cache, Budget: int64(f.cacheSize.byteSize), Logger: f.logger}
	switch {
	case f.cacheSize.given && o.Budget == 0:
		o.Budget = -1
	case offline: // nothing is stored, so a cache that is not there is not made
		dir, err := (&cacheOptions{dir: f.cache}).path()
		if err != nil {
			return err
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			o.Budget = -1
		}
	}
	store, err := cache.Open(o)
	if err != nil {
		return err
	}
	f.users, f.store = 1, store
	f.client = web.NewClient(web.Options{Timeout: f.timeout, Agent: "tensorfs/" + version(), Logger: f.logger, Plain: f.plainHTTP, Public: publicAddress,
		Asks: func(host string) { f.waiting.say("asking " + term.Shorten(host, maxHost) + " ...") }})
	return nil
}

// end closes client and store after the last user.
func (f *remoteFlags) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users == 0 {
		f.client.Close()
		f.store.Close()
	}
}

// isRemote reports whether files of a model are on other machines.
func isRemote(m *tensorfs.Model) bool {
	return slices.ContainsFunc(m.Sources, func(s tensorfs.Source) bool { return !s.Local() })
}
