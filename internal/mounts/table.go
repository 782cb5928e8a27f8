package mounts

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/internal/nfsstate"
)

// Program names the file system in the table of mounts, in paths and to programs.
const Program = "tensorfs"

// Type is the type of a FUSE mount as the table of mounts shows it.
const Type = "fuse." + Program

// autofs is the type of a directory at which an automounter waits.
const autofs = "autofs"

// Backends are the ways in which a tree is mounted.
const (
	BackendFUSE = "fuse"
	BackendNFS  = "nfs"
)

// Mount is a line of the table of mounts.
type Mount struct {
	Mountpoint string
	Source     string // path of the model, if it is a tensorfs
	Type       string
	Device     string // major:minor
	Token      string // of the NFS server; "" for mounts of another kind

	port int // port of the NFS server, 0 if unknown
	user int // who made a FUSE mount
}

// Copy is another mount of the file system of a mount.
type Copy struct {
	Mountpoint string
	PID        int // a process that has the copy, where this process does not; else 0
}

// Ours reports whether it is a tensorfs.
func (m *Mount) Ours() bool { return m.Type == Type || m.Token != "" }

// Backend returns how the tree is mounted.
func (m *Mount) Backend() string {
	if m.Token != "" {
		return BackendNFS
	}
	return BackendFUSE
}

// table reads the table of mounts, and replaces the source of an NFS mount by its model.
// NFS mounts of other users keep their address.
func table() ([]Mount, error) {
	all, err := readTable()
	if err != nil {
		return nil, err
	}
	for i := range all {
		m := &all[i]
		if m.Token = nfsstate.TokenIn(m.Type, m.Source); m.Token == "" {
			continue
		}
		if s := nfsstate.Of(m.Token); s != nil {
			m.Source, m.port = s.Model, s.Port
		}
	}
	return all, nil
}

// List lists the tensorfs mounts in the order of mounting. It touches none of them, so it
// does not hang where a server does.
func List() ([]Mount, error) {
	all, err := table()
	return slices.DeleteFunc(all, func(m Mount) bool { return !m.Ours() }), err
}

// Top returns the mount on top of a path without links, nil if nothing is mounted.
func Top(path string) (*Mount, error) {
	all, err := table()
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Mountpoint == path {
			return &all[i], nil
		}
	}
	return nil, nil
}

// At returns the tensorfs mount at a path, nil if there is no such mount. It does not touch
// the mount.
func At(path string) (*Mount, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, mountpointError(path, err)
	}
	m, err := Top(path)
	if err != nil || m == nil || !m.Ours() {
		return nil, err
	}
	return m, nil
}

// Automounted reports whether an automounter waits at a path for the first access. While it
// mounts, it lets only its own process group pass there.
func Automounted(path string) bool {
	path, err := resolve(path)
	if err != nil {
		return false
	}
	m, err := Top(path)
	return err == nil && m != nil && m.Type == autofs
}

// HasToken reports whether the mount of an NFS server is there, at its mount point or
// moved to another. A table that cannot be read does not say that the mount is gone.
func HasToken(token string) bool {
	all, err := table()
	return err != nil || slices.ContainsFunc(all, func(m Mount) bool { return m.Token == token })
}

// CleanStates removes the states of NFS servers that are gone together with their mounts.
func CleanStates() error {
	left := nfsstate.All()
	if len(left) == 0 {
		return nil
	}
	all, err := table()
	if err != nil {
		return err
	}
	for _, s := range left {
		if !slices.ContainsFunc(all, func(m Mount) bool { return m.Token == s.Token }) && s.Gone() {
			s.Remove()
		}
	}
	return nil
}

// bsdMount converts an entry of getfsstat. macFUSE shows all its file systems under one
// type, so the source tells whether it is a tensorfs.
func bsdMount(source, mountpoint, kind string) Mount {
	m := Mount{Mountpoint: mountpoint, Source: source, Type: kind}
	if model, ok := strings.CutPrefix(source, SourcePrefix); ok {
		m.Source, m.Type = model, Type
	}
	return m
}

// SourcePrefix begins the source of a FUSE mount of macOS, where the type is the same for
// all programs.
const SourcePrefix = Program + ":"
