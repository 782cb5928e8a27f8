package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/environ"
	protocol "github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/remote/az"
	"github.com/tensorfs/tensorfs/internal/remote/gs"
	hubfiles "github.com/tensorfs/tensorfs/internal/remote/hub"
	"github.com/tensorfs/tensorfs/internal/remote/ms"
	"github.com/tensorfs/tensorfs/internal/remote/oci"
	registry "github.com/tensorfs/tensorfs/internal/remote/ollama"
	"github.com/tensorfs/tensorfs/internal/remote/plain"
	"github.com/tensorfs/tensorfs/internal/remote/s3"
	"github.com/tensorfs/tensorfs/internal/web"
)

// MaxConnections is how many requests a process makes at a time, to all hosts together.
const MaxConnections = web.MaxConnections

// Options say how models on servers are found and read. The zero value is what the
// command tensorfs does without flags.
type Options struct {
	// CacheDir is the directory that keeps what was read, on a local disk. All programs
	// of a user may share it. "" is TENSORFS_CACHE, else tensorfs below XDG_CACHE_HOME or
	// ~/.cache.
	CacheDir string
	// CacheScope is for programs that share a cache and may not see the same models: a
	// resolved name is remembered only for programs of the same scope, so that each asks
	// the server with its own credentials. Bytes are found by the server's digest or
	// validator of them and are shared.
	CacheScope string
	// CacheSize is how many bytes the cache may have on the disk; 0 is a tenth of the
	// disk, at most 100 GB. A negative size keeps a few parts in memory, and nothing on
	// the disk.
	CacheSize int64
	// Timeout is how long a reader waits for its bytes; 0 is two minutes.
	Timeout time.Duration
	// Offline forbids requests to servers if it is not "". It is the reason that messages
	// name. If it is "", the variables TENSORFS_OFFLINE, HF_HUB_OFFLINE and
	// TRANSFORMERS_OFFLINE still count. Offline, a name means what it meant the last time,
	// and only cached bytes can be read.
	Offline string
	// AskFirst asks servers also where this machine has the model.
	AskFirst bool
	// Download brings into the cache what cannot be read in parts: a file of a server that sends
	// only whole files, however large it is, and what a compressed layer of an artifact unpacks
	// to. Without it that is an error.
	Download bool
	// PlainHTTP allows http:// to public addresses, where everybody on the way can change
	// what is read. It is always allowed to this machine and its networks.
	PlainHTTP bool
	// Connections is how many parts of a model are fetched from a host at a time, 0 for 16, and
	// at most MaxConnections.
	Connections int
	// Agent is sent as User-Agent; "" is "tensorfs".
	Agent string
	// Progress is told of long operations such as a download, with a description and the
	// number of bytes, 0 if unknown. Of the returned functions, add counts bytes as they
	// arrive, from any goroutine, and end runs when the operation is over. May be nil.
	Progress func(what string, total int64) (add func(n int64), end func())
	// Asks receives the host of every request. May be nil.
	Asks func(host string)
	// Logger gets problems that no error reports, such as a cache that cannot be used. May
	// be nil.
	Logger *slog.Logger
}

// forbids returns what forbids to ask servers, "" if nothing does.
func (o *Options) forbids() string {
	const own = "TENSORFS_OFFLINE"
	switch {
	case o.Offline != "":
		return o.Offline
	case environ.IsTrue(os.Getenv(own)):
		return own
	}
	return environ.HuggingFaceOffline(environ.Process)
}

// Client opens models, on servers and on this machine. All its models share
// connections, and a cache. It is safe for concurrent use.
type Client struct {
	opts Options

	// The connections and the cache are opened with the first model on a server, and
	// closed when the Client and all such models are.
	mu     sync.Mutex
	users  int // models, and the Client from the first of them on
	closed bool
	web    *web.Client
	store  *cache.Store
	hub    map[hub.Name]*protocol.Listing // commits that were found, by names without a selection
}

// New returns a Client. Nothing is opened yet.
func New(o Options) *Client {
	o.Offline = o.forbids()
	return &Client{opts: o}
}

// Open opens one model, by a Client of its own with the options of the command tensorfs.
// See [Client.Open].
func Open(ctx context.Context, name string) (*tensorfs.Model, error) {
	c := New(Options{})
	defer c.Close()
	return c.Open(ctx, name)
}

// Open opens a model: a path of this machine, or a name.
//
//	hf:ORG/NAME[@REVISION][:SELECT]     the Hugging Face Hub
//	ms:ORG/NAME[@REVISION][:SELECT]     ModelScope
//	ollama:NAME[:TAG]                   Ollama's registry, or another one
//	oci://HOST/REPOSITORY[:TAG]         an artifact in a registry
//	s3://BUCKET/KEY                     an object, or those below a prefix
//	gs://BUCKET/KEY                     the same in Google Cloud Storage
//	az://CONTAINER/BLOB                 the same in Azure Blob Storage
//	https://HOST/PATH                   a file
//
// Names that begin with hf: and ollama: are looked up on this machine first. Open reads
// headers; tensors are fetched through the cache when they are read. To open recipes of
// merges, use OpenPath of formats/models/merged with [Client.Formats]. ctx ends the
// requests that find the model, but not reads of the open model. The error is
// fs.ErrNotExist if there is no such model, and fs.ErrPermission if it may not be read, as
// far as the server tells the two apart. It is one line without secrets.
func (c *Client) Open(ctx context.Context, name string) (*tensorfs.Model, error) {
	return c.Formats(ctx).Open(name)
}

// Formats returns the options by which package formats opens models with this Client, for
// programs that set more of them, or pass them on. ctx is the same as in [Client.Open].
func (c *Client) Formats(ctx context.Context) formats.Options {
	return formats.Options{
		Remote:   func(name string) (formats.Elsewhere, error) { return c.locate(ctx, name, opening{}) },
		Hub:      os.Getenv("HF_ENDPOINT"),
		AskFirst: c.opts.AskFirst,
		Offline:  c.opts.Offline,
	}
}

// FormatsUntil is Formats for programs that give up opening a model: ctx also ends the reads of
// headers. It must not end while a model that was opened is in use. known is for models that
// were open before: names of the Hub and of Ollama's registries then mean what they meant the
// last time, and no server is asked what they mean now.
func (c *Client) FormatsUntil(ctx context.Context, known bool) formats.Options {
	o := c.Formats(ctx)
	o.Remote = func(name string) (formats.Elsewhere, error) { return c.locate(ctx, name, opening{ctx, known}) }
	return o
}

// opening is how a model is opened.
type opening struct {
	parsing context.Context // ends the reads of its headers; may be nil
	known   bool
}

// Close ends the use of the connections and of the cache. Models that are open can be
// read all the same, until they are closed, and no model on a server can be opened any
// more.
func (c *Client) Close() error {
	c.mu.Lock()
	used := !c.closed && c.users > 0
	c.closed = true
	c.mu.Unlock()
	if used {
		c.end()
	}
	return nil
}

// Mismatch returns the error of bytes that came and proved to be others than their
// server promised, of any model, perhaps one that is closed. Such bytes are not kept, but
// may have been read.
func (c *Client) Mismatch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		return nil
	}
	return c.store.Mismatch()
}

// Traffic returns how many bytes of models came from servers, and how many were read of what had come before, but
// for files that are in the cache as a whole.
func (c *Client) Traffic() (fetched, cached int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.web == nil {
		return 0, 0
	}
	return c.web.Traffic()
}

// CacheDir returns the directory of the cache that is in use, "" if nothing is kept on a
// disk, or no model on a server was opened yet.
func (c *Client) CacheDir() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		return ""
	}
	return c.store.Dir()
}

// CacheRoom returns how many bytes the cache may have on its disk, and whether the disk
// is too full for that.
func (c *Client) CacheRoom() (limit int64, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		return 0, false
	}
	return c.store.Limit()
}

// beside is the size up to which files of a repository are shared that were not read: all
// but other forms of the model's weights.
const beside = 16 << 20

// Share passes a model that this Client has open, hf:ORG/NAME or hf:ORG/NAME@REVISION, on
// to Hugging Face's own programs: it puts the model's files, and the small files beside
// them, into their cache as a snapshot. It returns the directory of that cache, or "" if it
// shares nothing: the name is not a whole repository, large files are missing in the
// Client's cache, or their cache is not writable.
func (c *Client) Share(ctx context.Context, name string) (dir string, err error) {
	text, ok := strings.CutPrefix(name, hub.Prefix)
	n, err := hub.ParseName(text)
	c.mu.Lock()
	l := c.hub[n]
	c.mu.Unlock()
	if !ok || err != nil || l == nil || n.Select != (pick.Select{}) || !hubfiles.Complete(l, beside) {
		return "", nil
	}
	if dir, err = environ.HuggingFaceCache(environ.Process); err != nil { // without a home directory there is no cache
		return "", nil
	}
	err = hubfiles.Keep(ctx, dir, n.Repository, n.Revision, l)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "", nil
	case err != nil:
		return "", err
	}
	return dir, nil
}

// protocols are the ways to find models, by how their names begin. open returns the
// files, the model among them ("." for all of them).
var protocols = []struct {
	prefix string
	open   func(ctx context.Context, name string, o protocol.Options) (l *protocol.Listing, file string, err error)
}{
	{hub.Prefix, openHub},
	{ms.Prefix, openModelScope},
	{ollama.Prefix, func(ctx context.Context, name string, o protocol.Options) (*protocol.Listing, string, error) {
		return registry.Open(ctx, strings.TrimPrefix(name, ollama.Prefix), o)
	}},
	{"oci://", oci.Open},
	{s3.Scheme, s3.Open},
	{gs.Scheme, gs.Open},
	{az.Scheme, az.Open},
	{"https://", plain.Open},
	{"http://", plain.Open},
}

// openHub opens a commit of a repository. What follows its revision is a path in it.
func openHub(ctx context.Context, name string, o protocol.Options) (*protocol.Listing, string, error) {
	n, err := hub.ParseName(strings.TrimPrefix(name, hub.Prefix))
	if err != nil {
		return nil, "", err
	}
	o.HubCache, _ = environ.HuggingFaceCache(environ.Process) // without a home directory there is no cache
	l, rest, err := hubfiles.Open(ctx, n.Repository, n.Revision, o)
	return l, cmp.Or(rest, "."), err
}

// openModelScope opens a revision of a repository of ModelScope's.
func openModelScope(ctx context.Context, name string, o protocol.Options) (*protocol.Listing, string, error) {
	n, err := hub.ParseName(strings.TrimPrefix(name, ms.Prefix))
	if err != nil {
		return nil, "", err
	}
	l, err := ms.Open(ctx, n.Repository, n.Revision, o)
	return l, ".", err
}

// locate finds a model on a server.
func (c *Client) locate(ctx context.Context, name string, how opening) (formats.Elsewhere, error) {
	var known []string
	for _, p := range protocols {
		if !strings.HasPrefix(name, p.prefix) {
			known = append(known, p.prefix)
			continue
		}
		if err := c.begin(); err != nil {
			return formats.Elsewhere{}, err
		}
		o := c.protocol()
		o.Known = how.known
		l, file, err := p.open(ctx, name, o)
		if err != nil {
			c.end()
			return formats.Elsewhere{}, err
		}
		l.Parsing = how.parsing
		if p.prefix == hub.Prefix && file == "." {
			c.found(name, l)
		}
		pinned := l.Name
		switch { // a listing is the directory of a file
		case strings.Contains(p.prefix, "http"):
			pinned = conceal.Name(name)
		case (p.prefix == s3.Scheme || p.prefix == gs.Scheme || p.prefix == az.Scheme) && file != ".":
			pinned += "/" + file
		}
		return formats.Elsewhere{FS: &lent{l, sync.OnceFunc(c.end)}, File: file, Name: pinned, Note: l.Note}, nil
	}
	problem, advice, ok := formats.Unread(name)
	if !ok {
		problem, advice = "models cannot be read from such an address", "names of models elsewhere begin with "+strings.Join(known, ", ")
	}
	if meant := formats.Meant(name); meant != "" {
		advice = "write it as " + conceal.Name(meant)
	}
	return formats.Elsewhere{}, &tensorfs.FormatError{File: conceal.Name(name), Offset: -1, Problem: problem, Advice: advice, Kind: tensorfs.ErrUnsupported}
}

// protocol returns what protocols find models with.
func (c *Client) protocol() protocol.Options {
	return protocol.Options{Client: c.web, Store: c.store, Offline: c.opts.Offline, Download: c.opts.Download, Progress: c.opts.Progress}
}

// found remembers which commit a name was.
func (c *Client) found(name string, l *protocol.Listing) {
	n, err := hub.ParseName(strings.TrimPrefix(name, hub.Prefix))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hub == nil {
		c.hub = map[hub.Name]*protocol.Listing{}
	}
	c.hub[n] = l
}

// lent is a listing that ends its use of a Client when it is closed.
type lent struct {
	*protocol.Listing
	end func()
}

// Close ends the use of the listing, whose files are closed.
func (l *lent) Close() error {
	err := l.Listing.Close()
	l.end()
	return err
}

// begin counts one more user of the connections and the cache, and opens them for the
// first.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("models on servers: the client is closed: %w", fs.ErrClosed)
	}
	if c.users > 0 {
		c.users++
		return nil
	}
	// Offline nothing is stored, so a cache that does not exist is not made.
	store, err := cache.Open(cache.Options{Dir: c.opts.CacheDir, Budget: c.opts.CacheSize, Logger: c.opts.Logger, Exists: c.opts.Offline != "", Scope: c.opts.CacheScope})
	if err != nil {
		return err
	}
	c.users, c.store = 2, store
	c.web = web.NewClient(web.Options{Timeout: c.opts.Timeout, Agent: c.opts.Agent, Logger: c.opts.Logger, Plain: c.opts.PlainHTTP, Connections: c.opts.Connections, Asks: c.opts.Asks})
	return nil
}

// end counts one user less, and closes the connections and the cache after the last.
func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		c.web.Close()
		c.store.Close()
	}
}
