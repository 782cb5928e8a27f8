package server

import (
	"log/slog"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Spec specifies what a server serves, where, and how.
type Spec struct {
	Command    string   // that runs the server: mount or serve
	Model      string   // an absolute path, or the name of a model or a library
	More       []string // further libraries
	Adapters   []string
	Mountpoint string   // an absolute path; "" serves without a mount
	Flags      []string // of the server's command line
	Extra      []string // mount options that change something and are not flags

	Background bool   // this process is the server that Start has started
	HandedOver bool   // Model, Adapters and secrets come from standard input
	Backend    string // one of Backends
	Log        string // syslog, journal or a file; "" for the default
	Debug      bool
	Takeover   string // the socket of a keeper, or BySystemd; "" for neither
	Secrets    string // a pipe with tokens and keys for other machines; "" for none

	AllowOther, NonEmpty, NoMkdir, NoPassthrough bool
	ReadAhead                                    int // in KiB
}

// Content is what a server serves: a model or a library.
type Content struct {
	Root     tensorfs.Dir           // the tree of a model; nil if Library is set
	Library  *fs.Library            // or nil
	Options  fs.Options             // as far as they follow from the content
	View     string                 // that is read ahead
	Warming  *tree.Warming          // nil to read nothing ahead
	Warnings func() []string        // that the server logs
	Identity func() (string, error) // what names and bytes follow from, for a mount that is kept; nil if it cannot be kept
	Facts    func() (string, error) // as Identity, for clients of an NFS server
	Close    func() error
}

// Served is a tree that is served until it is unmounted.
type Served interface {
	Wait()
	Done() <-chan struct{}
	Unmount() error
	UnmountLazy() error
	Logger() *slog.Logger
}

// Backends are the ways to serve the tree of a model. Only macOS mounts what the second one serves.
var Backends = map[string]func(c *Content, at string, o fs.Options) (Served, error){
	mounts.BackendFUSE: mountFUSE,
	mounts.BackendNFS:  mountNFS,
}

func mountFUSE(c *Content, at string, o fs.Options) (Served, error) {
	if c.Library != nil {
		return servedBy(fs.MountLibrary(*c.Library, at, o))
	}
	return servedBy(fs.Mount(c.Root, at, o))
}

// servedBy keeps a nil server from being one.
func servedBy(s *fs.Server, err error) (Served, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// BySystemd is the value of --takeover for a mount that systemd keeps.
const BySystemd = "systemd"

// AbsolutePaths makes what a server is to find independent of the working directory, which it leaves.
func (s *Spec) AbsolutePaths() error {
	for _, path := range []*string{&s.Takeover, &s.Secrets} {
		if *path == "" || *path == BySystemd || filepath.IsAbs(*path) {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	return nil
}
