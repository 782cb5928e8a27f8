package nfs

import (
	"cmp"
	"crypto/subtle"
	"strings"
	"sync"
)

// The MOUNT protocol, version 3 (RFC 1813, appendix I).

const (
	mntNoEnt       = 2
	mntIO          = 5
	mntAccess      = 13
	mntNotDir      = 20
	mntNameTooLong = 63

	maxMountPath = 1024
)

var mountProcedures = []procedure{
	0: {run: null},
	1: {run: (*call).mnt, fails: true},
	2: {run: nothing}, // DUMP: the list of clients is not disclosed
	3: {run: (*call).umnt},
	4: {run: (*call).umntAll},
	5: {run: nothing}, // EXPORT: the path is the secret
}

// mountState is how far the one mount is.
type mountState struct {
	mu   sync.Mutex
	used bool  // the token
	by   *conn // the connection that used it
	told bool  // that another one asked
	gone chan struct{}
	once sync.Once
}

// null answers NULL.
func null(*call) uint32 { return ok3 }

// nothing answers with an empty list.
func nothing(c *call) uint32 {
	c.out.bool(false)
	return ok3
}

// path splits the path of a mount into names after the token, false without the token.
// It takes the same time for any wrong token.
func (c *call) path() (names []string, ok bool) {
	token, rest, _ := strings.Cut(strings.TrimPrefix(string(c.args.opaque(maxMountPath)), "/"), "/")
	if c.args.bad || subtle.ConstantTimeCompare([]byte(token), []byte(c.opts.Token)) != 1 {
		return nil, false
	}
	return strings.FieldsFunc(rest, func(r rune) bool { return r == '/' }), true
}

// take reports whether a connection may have a handle, and with use lets it have one.
func (c *call) take(use bool) bool {
	m := &c.mount
	m.mu.Lock()
	defer m.mu.Unlock()
	if use && !m.used {
		m.used, m.by = true, c.conn
	}
	if !m.used || m.by == c.conn || c.opts.Shared {
		return true
	}
	if !m.told {
		m.told = true
		c.faults.Logger().Warn("a second client asked for the mount with its path, and was refused", "from", c.conn.net.RemoteAddr())
	}
	return false
}

// mnt returns the handle of the root or of a directory below it. A refused client does not
// learn which names exist; the path of a mount itself is not a secret.
func (c *call) mnt() uint32 {
	names, ok := c.path()
	if !ok || !c.take(false) {
		return mntAccess
	}
	n := node{number: rootNumber}
	n.Entry, _ = c.tree.Entry(rootNumber)
	for _, name := range names {
		var status uint32
		if n, status = c.lookupIn(n, name); status != ok3 {
			return cmp.Or(mountStatus[status], mntIO)
		}
	}
	if n.Dir == nil {
		return mntNotDir
	}
	if !c.take(true) {
		return mntAccess
	}
	c.conn.known.Store(true)
	c.handle(n.number)
	c.out.uint32(1, authSys) // a list of one flavour
	return ok3
}

// mountStatus is what is wrong with a path, in MOUNT's numbers.
var mountStatus = map[uint32]uint32{
	errNoEnt:       mntNoEnt,
	errNotDir:      mntNotDir,
	errNameTooLong: mntNameTooLong,
}

// umnt takes note of the end of a mount.
func (c *call) umnt() uint32 {
	if _, ok := c.path(); ok {
		c.unmounted()
	}
	return ok3
}

func (c *call) umntAll() uint32 {
	c.unmounted()
	return ok3
}

func (c *call) unmounted() {
	c.mount.mu.Lock()
	defer c.mount.mu.Unlock()
	if c.mount.used {
		c.mount.once.Do(func() { close(c.mount.gone) })
	}
}
