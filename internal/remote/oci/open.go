package oci

import (
	"context"
	"errors"
	"io"
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
	Files  []file // and archives that are compressed
	Image  bool   `json:",omitempty"` // it is a container
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
	q := remote.Question[artifactFiles]{Name: name, Who: "the registry " + ref.registry, Offline: o.Offline, Ask: a.findFiles}
	q.Kept, q.Keep = remote.Kept[artifactFiles](o.Store, ref.String())
	if a.answer, err = q.Answer(ctx); err != nil {
		return nil, "", err
	}
	f := a.answer.Value
	a.s.ref = ref.at(f.Digest)
	files, err := a.unpacked(ctx, f)
	if err != nil {
		return nil, "", err
	}
	files, folder := inFolder(files)
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

// findFiles asks the registry.
func (a *artifact) findFiles(ctx context.Context) (artifactFiles, error) {
	all, cancel := a.o.Client.Within(ctx)
	defer cancel()
	m, digest, err := a.s.findManifest(all)
	if err != nil {
		return artifactFiles{}, err
	}
	ref := a.s.ref.at(digest)
	a.s.ref = ref // what is asked for later is this one
	list, err := m.files()
	if err != nil {
		return artifactFiles{}, a.s.wrong(ref, err.Error(), advice)
	}
	f := artifactFiles{Digest: digest, Time: time.Now().Truncate(time.Second), Image: m.isImage()}
	for _, x := range list {
		if x.Name != "" || x.Packing != "" {
			f.Files = append(f.Files, x)
			continue
		}
		members, err := a.members(ctx, ref.String(), x, f.Image, maxMembers-len(f.Files))
		if err != nil {
			return artifactFiles{}, err
		}
		f.Files = append(f.Files, members...)
	}
	return f, nil
}

// advice is what to do about an artifact that is not as it should be.
const advice = "ask for one that is pushed uncompressed and by a program for models"

// members reads the headers of an archive. One that is compressed without saying so is the only
// member.
func (a *artifact) members(ctx context.Context, name string, x file, image bool, room int) (list []file, err error) {
	var known unpackedLayer
	if _, ok := a.o.Store.Pinned(unpackedPin(x.Digest, image), &known); ok && unpacks(known.Packing) {
		x.Packing = known.Packing
		return []file{x}, nil
	}
	at := name + "/" + x.Digest + ".tar"
	f, err := a.layer(x, at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := reader{ctx, f}
	begin := make([]byte, min(maxMagic, x.Size))
	if _, err = r.ReadAt(begin, 0); err == nil || err == io.EOF {
		switch x.Packing = packingOf(begin); {
		case x.Packing != "" && x.Beside:
			return nil, nil
		case x.Packing != "":
			return []file{x}, nil
		}
		err = inPlace(r, x.Size, image).walk(func(m member, _ io.Reader) error {
			if len(list) >= room {
				return errMembers
			}
			list = append(list, x.member(m))
			return nil
		})
	}
	return a.result(ctx, x, at, list, err)
}

// errMembers is the error that an artifact has too many files.
var errMembers = errors.New("has too many members, or the artifact has")

// member is a member of the archive x.
func (x file) member(m member) file {
	f := file{Name: m.name, Digest: x.Digest, Size: x.Size, Layer: x.Layer, Kind: m.kind, Link: m.link, Beside: x.Beside}
	if m.kind == "" {
		f.Part = &remote.Part{Off: m.off, Size: m.size}
	}
	return f
}

// result returns the members of an archive, or what is wrong with it. One beside a model that
// cannot be read is passed over.
func (a *artifact) result(ctx context.Context, x file, at string, list []file, err error) ([]file, error) {
	switch {
	case err == nil:
		return list, nil
	case is[*tensorfs.FormatError](err), is[*tensorfs.ChangedError](err), ctx.Err() != nil:
		return nil, err
	case x.Beside:
		return nil, nil
	}
	return nil, tensorfs.Unsupported(at, "the archive "+err.Error(), "it is not a model that tensorfs can read; push its files as layers of their own")
}

// layer opens a layer.
func (a *artifact) layer(x file, at string) (*web.File, error) {
	entry, err := a.o.Store.Entry(a.id(x, at, time.Now().Truncate(time.Second)))
	if err != nil {
		return nil, err
	}
	f := a.o.Client.File(a.origin(x.Digest, at), entry, a.s.ref.host(), at, "layer.tar")
	f.SetDigest(x.Digest)
	return f, nil
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
			return nil, a.damaged()
		}
		if f.Unpacked {
			items[i] = remote.Item{Name: f.Name, ID: f.unpackedID(label, at), Host: a.s.ref.host(), Origin: a.answer.Origin(web.Refuse(lost(label)))}
			continue
		}
		items[i] = remote.Item{Name: f.Name, ID: a.id(f, label, at), Host: a.s.ref.host(), Origin: a.origin(f.Digest, label), Part: f.Part}
	}
	return a.o.Listing(name, items, at, a.answer.Note)
}
