package plain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Options say with what a server is asked.
type Options = remote.Options

const (
	// first is how many bytes of an unknown file are asked for first: most headers of GGUF
	// end in them. firstShard is the same for files whose headers are small.
	first      = 1 << 20
	firstShard = cache.CellSize
)

// Open finds the file at an address, https:// or, on this machine and private
// networks, http://, and the other files of a split model. file is its name in the
// listing, whose name is the address of its directory. An error is one line without
// secrets; it is fs.ErrNotExist if the file does not exist, and syscall.EACCES
// if it may not be read.
func Open(ctx context.Context, name string, o Options) (l *remote.Listing, file string, err error) {
	a, err := parse(name)
	if err != nil {
		return nil, "", err
	}
	if a.user == nil && a.url.Scheme == "https" { // any program that listens at a port may answer to http
		a.user = netrc(a.url.Hostname(), o.Getenv)
	}
	named, err := findFile(ctx, &o, a, first, nil)
	if err != nil {
		return nil, "", err
	}
	all := []foundFile{named}
	defer func() {
		for _, f := range all {
			if err != nil && f.entry != nil {
				f.entry.Close()
			}
		}
	}()
	others, err := findShards(ctx, &o, a, named.silence)
	all = append(all, others...)
	if err != nil {
		return nil, "", err
	}
	items := make([]remote.Item, len(all))
	for i := range all {
		items[i] = all[i].item
	}
	if l, err = o.Listing(a.dir(), items, named.item.ID.ModTime, named.note); err != nil {
		return nil, "", err
	}
	for _, f := range all {
		if f.entry != nil {
			l.Keep(f.entry)
		}
	}
	return l, a.file(), nil
}

// findShards finds the other files of a split model, as far as they exist: the parser reports
// missing ones. silence is why the server is not asked, nil if it is.
func findShards(ctx context.Context, o *Options, a address, silence error) (all []foundFile, err error) {
	var mu sync.Mutex
	shards := a.shards()
	err = parallel.Each(ctx, remote.AtOnce, len(shards), func(ctx context.Context, i int) error {
		if shards[i].file() == a.file() {
			return nil
		}
		f, err := findFile(ctx, o, shards[i], firstShard, silence)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, f)
		}
		return err
	})
	return all, err
}

// foundFile is a file that exists on the server.
type foundFile struct {
	item  remote.Item
	entry *cache.Entry // keeps the bytes that came with the answer while it is open; may be nil

	silence error  // the server did not answer: it is the last known version
	note    string // which explains that
}

// finding is the search for one file.
type finding struct {
	*Options
	address
	name string // for people
}

// findFile asks for a file. probe is how many of its bytes to request if the file is unknown;
// silence is why the server is not asked, nil if it is.
func findFile(ctx context.Context, o *Options, a address, probe int64, silence error) (foundFile, error) {
	f := &finding{o, a, a.String()}
	q := remote.Question[foundFile]{Name: f.name, Who: "the server", Offline: o.Offline, Kept: f.kept, Ask: func(ctx context.Context) (foundFile, error) {
		if silence != nil {
			return foundFile{}, silence
		}
		if _, _, ok := f.kept(); ok {
			probe = 1 // its header is in the cache: only the version is of interest
		}
		for tries := 1; ; tries++ {
			x, err := f.answer(ctx, probe)
			if tries == maxTries || !errors.Is(err, errWrongPart) {
				return x, err
			}
		}
	}}
	x, err := q.Answer(ctx)
	if err != nil {
		return foundFile{}, err
	}
	x.Value.item.Origin = x.Origin(x.Value.item.Origin)
	x.Value.silence, x.Value.note = x.Silence, x.Note
	return x.Value, nil
}

// kept is the file as it was the last time.
func (f *finding) kept() (x foundFile, at time.Time, ok bool) {
	var v version
	at, ok = f.Store.Pinned(f.same(), &v)
	if !ok || !v.Exact || v.Size < 0 || v.Size > cache.MaxSize {
		return foundFile{}, at, false
	}
	return foundFile{item: f.item(v, newOrigin(f.Client, f.name, v, f.url, f.url, f.ask))}, at, true
}

// answer asks for the first bytes of the file.
func (f *finding) answer(ctx context.Context, probe int64) (foundFile, error) {
	resp, err := f.Client.Get(ctx, func(ctx context.Context) (*http.Request, error) {
		req, err := f.ask(ctx)
		if err == nil {
			req.Header.Set("Range", fmt.Sprintf("bytes=0-%d", probe-1))
		}
		return req, err
	})
	if err != nil {
		return foundFile{}, err
	}
	defer resp.Body.Close()
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" && resp.StatusCode < 300 {
		return foundFile{}, f.refuse("the server sends it compressed, which has no parts", "ask its operator for the file itself")
	}
	switch resp.StatusCode {
	case http.StatusPartialContent:
		return f.part(resp)
	case http.StatusOK:
		return f.takeWhole(ctx, resp)
	case http.StatusRequestedRangeNotSatisfiable:
		if strings.TrimSpace(resp.Header.Get("Content-Range")) == "bytes */0" {
			return f.bytes([]byte{}, resp), nil
		}
	}
	return foundFile{}, refusal(f.name, resp)
}

// ask returns a request for the file.
func (f *finding) ask(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.String(), nil)
	if err != nil { // its text may quote the address
		return nil, f.refuse("it is not an address that can be asked", "check it")
	}
	if f.user != nil {
		password, _ := f.user.Password()
		req.SetBasicAuth(f.user.Username(), password)
	}
	return req, nil
}

// errWrongPart marks an answer that is not what was asked for. Another may be.
var errWrongPart = fmt.Errorf("%w: a wrong answer", tensorfs.ErrUnsupported)

func (f *finding) refuse(problem, advice string) error {
	return tensorfs.Unsupported(f.name, problem, advice)
}

// item is a version of the file.
func (f *finding) item(v version, o web.Origin) remote.Item {
	return remote.Item{
		Name:   f.file(),
		ID:     cache.ID{Key: v.key(f.address), Size: v.Size, Source: f.name, ModTime: v.Time, Private: !v.Exact},
		Host:   f.url.Host,
		Origin: o,
	}
}

// origin is how a version is asked for that an answer told.
func (f *finding) origin(v version, resp *http.Response) web.Origin {
	return newOrigin(f.Client, f.name, v, f.url, resp.Request.URL, f.ask)
}

// pin keeps a version for offline use.
func (f *finding) pin(v version) {
	if v.Exact {
		_ = f.Store.Pin(f.same(), &v) // what cannot be kept is asked for again, and that is all
	}
}
