package oci

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Options say how names are looked up.
type Options = remote.Options

// artifactFiles is what a name was, as it is pinned.
type artifactFiles struct {
	Digest string // of the manifest
	Time   time.Time
	Files  []file // none of them an archive
}

// Open looks up oci://REGISTRY/REPOSITORY[:TAG|@sha256:HEX] and returns the files of
// the artifact, and which of them is the model: "." for all of them. Errors are one
// line, without anything secret.
func Open(ctx context.Context, name string, o Options) (*remote.Listing, string, error) {
	ref, err := parse(name)
	if err != nil {
		return nil, "", err
	}
	a := &artifact{s: newSession(ref, o.Client), o: o, origins: map[string]web.Origin{}}
	q := remote.Question[artifactFiles]{Name: name, Who: "the registry " + ref.registry, Offline: o.Offline, Ask: a.find}
	q.Kept, q.Keep = remote.Kept[artifactFiles](o.Store, ref.String())
	if a.answer, err = q.Answer(ctx); err != nil {
		return nil, "", err
	}
	f := a.answer.Value
	a.s.ref = ref.at(f.Digest)
	files, folder := inFolder(f.Files)
	l, err := a.listing(a.s.ref.String(), folder, files, f.Time)
	if err != nil {
		return nil, "", err
	}
	file, err := l.Choose()
	return l, file, err
}

// artifact is an artifact as it is looked up.
type artifact struct {
	s       *session
	o       Options
	origins map[string]web.Origin        // of layers, by digest
	answer  remote.Answer[artifactFiles] // of the registry, once it is known
}

// find asks the registry.
func (a *artifact) find(ctx context.Context) (artifactFiles, error) {
	all, cancel := a.o.Client.Within(ctx)
	defer cancel()
	m, digest, err := a.s.find(all)
	if err != nil {
		return artifactFiles{}, err
	}
	ref := a.s.ref.at(digest)
	a.s.ref = ref // what is asked for later is this one
	list, err := m.files()
	if err != nil {
		return artifactFiles{}, a.s.wrong(ref, err.Error(), "ask for one that is pushed uncompressed and by a program for models")
	}
	f := artifactFiles{Digest: digest, Time: time.Now().Truncate(time.Second)}
	for _, x := range list {
		if x.Name != "" {
			f.Files = append(f.Files, x)
			continue
		}
		members, err := a.members(ctx, ref.String(), x, maxMembers-len(f.Files))
		if err != nil {
			return artifactFiles{}, err
		}
		f.Files = append(f.Files, members...)
	}
	return f, nil
}

// members reads the headers of an archive.
func (a *artifact) members(ctx context.Context, name string, x file, room int) (list []file, err error) {
	at := name + "/" + x.Digest + ".tar"
	entry, err := a.o.Store.Entry(a.id(x, at, time.Now().Truncate(time.Second)))
	if err != nil {
		return nil, err
	}
	f := a.o.Client.File(a.origin(x.Digest, at), entry, a.s.ref.host(), at, "layer.tar")
	defer f.Close()
	err = walk(reader{ctx, f}, x.Size, func(m member) error {
		if len(list) >= room {
			return fmt.Errorf("has too many members, or the artifact has")
		}
		list = append(list, file{m.name, x.Digest, x.Size, &remote.Part{Off: m.off, Size: m.size}})
		return nil
	})
	if err == nil || is[*tensorfs.FormatError](err) || is[*tensorfs.ChangedError](err) || ctx.Err() != nil {
		return list, err
	}
	return nil, tensorfs.Unsupported(at, "the archive "+err.Error(), "it is not a model that tensorfs can read; push its files as layers of their own")
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// reader reads a file until its context ends.
type reader struct {
	ctx context.Context
	f   tensorfs.ContextReaderAt
}

// ReadAt implements io.ReaderAt.
func (r reader) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAtContext(r.ctx, p, off) }

// id is the identity of a layer for the cache.
func (a *artifact) id(f file, source string, at time.Time) cache.ID {
	return cache.ID{Key: f.Digest, Digest: f.Digest, Server: a.s.ref.server(), Size: f.Size, Source: source, ModTime: at}
}

// origin returns how a layer is asked for, the same for all of its members.
func (a *artifact) origin(digest, at string) web.Origin {
	if a.origins[digest] == nil {
		a.origins[digest] = a.answer.Origin(newBlob(a.s, digest, at))
	}
	return a.origins[digest]
}

// listing makes a listing of files. name is the artifact's, folder where in it they
// are.
func (a *artifact) listing(name, folder string, files []file, at time.Time) (*remote.Listing, error) {
	if folder != "" {
		name += "/" + folder
	}
	items := make([]remote.Item, len(files))
	for i, f := range files {
		label := name + "/" + f.Name
		if !sha256Name().MatchString(f.Digest) {
			return nil, a.s.wrong(a.s.ref, "what the cache has of it is damaged", "open it again without "+a.o.Offline)
		}
		items[i] = remote.Item{Name: f.Name, ID: a.id(f, label, at), Host: a.s.ref.host(), Origin: a.origin(f.Digest, label), Part: f.Part}
	}
	return a.o.Listing(name, items, at, a.answer.Note)
}
