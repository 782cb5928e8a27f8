package main

import (
	"context"
	"encoding/json"
	"errors"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// publish has a volume shown at its target.
func (f *fleet) publish(ctx context.Context, r record, sec secrets) error {
	unlock, err := f.targets.lock(ctx, r.Target)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := f.recorded(r.Volume, r.Target)
	switch {
	case err != nil:
		return err
	case old == nil:
		err = f.isFree(r.Target)
	case old != nil && !maps.Equal(old.Attributes, r.Attributes):
		return status.Errorf(codes.AlreadyExists, "the volume is published at %s with other attributes", r.Target)
	}
	if err != nil {
		return err
	}
	r.Secrets = sec.sum
	for try := 1; ; try++ {
		err := f.publishOn(ctx, &r, old, sec)
		if !errors.Is(err, unix.ENOTCONN) || try == publishTries || ctx.Err() != nil {
			return err
		}
		f.log.Warn("a server ended while a volume was published", "key", r.Key, "error", err)
	}
}

// publishTries is how many servers of one model may end while a volume is published.
const publishTries = 3

// publishOn shows a volume from the present server of its model. The error is ENOTCONN if
// that server ends during the call. The lock of the target is held.
func (f *fleet) publishOn(ctx context.Context, r, old *record, sec secrets) error {
	s, err := f.serverFor(ctx, r, old, sec)
	if err != nil {
		return err
	}
	err = s.wait(ctx)
	isShown := false
	if err == nil {
		if isShown, err = f.isShown(r); err == nil && !isShown { // else it was looked at before
			err = f.check(ctx, s, r.Attributes)
		}
	}
	if err == nil && !isShown {
		fault("ready")
		err = makeTarget(r.Target)
	}
	// From here on it ends in any case: a call that is over would leave the lock.
	unlockKey, lerr := f.keys.lock(context.WithoutCancel(ctx), r.Key)
	if lerr != nil {
		return lerr
	}
	defer unlockKey()
	defer f.release(s)
	if err != nil {
		return err
	}
	fault("made")
	if old == nil || !reflect.DeepEqual(old, r) {
		if err := f.dir.write(r); err != nil {
			return err
		}
	}
	fault("recorded")
	if old != nil && isShown {
		f.passSecrets(s, sec)
		return protect(r.Target)
	}
	return f.show(r)
}

// serverFor chooses the server of a volume, sets the record's key, and starts the server if it is not there.
//
// A volume keeps its server. Another one gets the server that has the same secrets now: the
// first one of its key, unless that was given others.
func (f *fleet) serverFor(ctx context.Context, r, old *record, sec secrets) (*server, error) {
	for turn := 0; ; turn++ {
		if r.Key = r.Attributes.key(sec.sum, turn); old != nil {
			r.Key = old.Key
		}
		unlock, err := f.keys.lock(ctx, r.Key)
		if err != nil {
			return nil, err
		}
		s, err := f.tryServer(r, old, sec)
		unlock()
		if s != nil || err != nil {
			return s, err
		}
	}
}

// tryServer is serverFor for one key, whose lock is held. It returns nil if that server has, or may have, other secrets.
func (f *fleet) tryServer(r, old *record, sec secrets) (*server, error) {
	all, err := f.dir.records()
	if err != nil {
		f.log.Warn("a record cannot be read", "error", err)
	}
	users := recordsOf(all, r.Key)
	others := make([]record, 0, len(users))
	for _, u := range users {
		if u.Volume != r.Volume || u.Target != r.Target {
			others = append(others, u)
		}
	}
	if old == nil {
		if !agree(others, sec.sum) {
			return nil, nil
		}
		if s := f.running(r.Key); s != nil && !s.isGone() && len(users) == 0 && s.secrets.sum != sec.sum {
			return nil, nil // it lingers with others
		}
	}
	// Without a server only secrets that all of its volumes have may start one: no pod reads with another's credentials.
	if s := f.running(r.Key); (s == nil || s.isGone()) && old != nil && !agree(others, sec.sum) && !f.began(r, sec) {
		if err := f.dir.write(r); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "the server of this model ended; it starts again when all of its volumes are published with the same secrets")
	}
	return f.get(r.Key, r.Attributes, sec, wantsWarm(users) || r.Attributes["warm"] != "")
}

// began reports whether the key of a record belongs to a server that began with these
// secrets.
func (f *fleet) began(r *record, sec secrets) bool {
	return r.Key == r.Attributes.key(sec.sum, 0)
}

// passSecrets gives a server the secrets of a volume that is published again. A server of several volumes gets them when all of them
// have been published with the same: no pod reads with another's credentials. The lock of the key is held.
func (f *fleet) passSecrets(s *server, sec secrets) {
	if sec.line == nil || s.secrets.sum == sec.sum {
		return
	}
	all, err := f.dir.records()
	if err != nil || !agree(recordsOf(all, s.key), sec.sum) {
		return
	}
	if err := sec.pass(f.dir.secrets(s.key)); err != nil {
		f.log.Warn("a server cannot be given other secrets", "key", s.key, "error", err)
		return
	}
	s.secrets = sec
	f.log.Info("gave a server other secrets", "key", s.key)
}

// isShown reports whether the target of a record shows its server's mount.
func (f *fleet) isShown(r *record) (bool, error) {
	m, err := top(r.Target)
	if err != nil || m == nil {
		return false, err
	}
	of, err := top(f.dir.mount(r.Key))
	if err != nil || of == nil {
		return false, err
	}
	return m.Device == of.Device && m.Root == "/"+r.Attributes["path"], nil
}

// bindTime is how long binding may take: it asks the server for nothing that was not asked before.
const bindTime = 10 * time.Second

// show binds a volume to its server's mount, replacing the mount of a server that is gone.
// The locks of target and key are held.
func (f *fleet) show(r *record) error {
	is, err := f.isShown(r)
	if err != nil {
		return err
	}
	if !is {
		if err := detach(r.Target); err != nil {
			return err
		}
		// A server that is killed now is not started again until this lock is let go.
		ctx, cancel := context.WithTimeout(context.Background(), bindTime)
		defer cancel()
		bound := func() (struct{}, error) { return struct{}{}, bind(f.dir.mount(r.Key), r.Attributes["path"], r.Target) }
		if _, err := patiently(ctx, bound); err != nil {
			if ctx.Err() != nil {
				return status.Errorf(codes.Unavailable, "the server of %s does not answer", r.Attributes.public())
			}
			return err
		}
		fault("bound")
		if is, err = f.isShown(r); err == nil && !is {
			err = status.Errorf(codes.Unavailable, "%s shows something else than its server's mount", r.Target)
		}
		if err != nil {
			return errors.Join(err, detach(r.Target))
		}
	}
	if err := protect(r.Target); err != nil {
		return err
	}
	fault("protected")
	return nil
}

// recorded returns the record of a volume, nil if it cannot be read.
func (f *fleet) recorded(volume, target string) (*record, error) {
	r, err := f.dir.readRecord(volume, target)
	if errors.Is(err, errDamaged) {
		f.log.Error("a volume is taken for one that is not published", "error", err)
		return nil, nil
	}
	return r, err
}

// isFree returns an error if another volume is mounted at a target.
func (f *fleet) isFree(target string) error {
	m, err := top(target)
	if err != nil || m == nil {
		return err
	}
	all, err := f.dir.records()
	if err != nil {
		f.log.Warn("a record cannot be read", "error", err)
	}
	for _, other := range all {
		if other.Target == target {
			return status.Errorf(codes.FailedPrecondition, "volume %s is published at %s", tensorfs.Quote(other.Volume), target)
		}
	}
	return nil
}

// unpublish removes a volume from its target.
func (f *fleet) unpublish(ctx context.Context, volume, target string) error {
	unlock, err := f.targets.lock(ctx, target)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := f.recorded(volume, target)
	if err != nil {
		return err
	}
	if r == nil && f.isFree(target) != nil {
		return nil
	}
	if err := detach(target); err != nil {
		return err
	}
	fault("detached")
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fault("removed")
	if r == nil { // or there is a damaged one
		return f.dir.forget(volume, target)
	}
	unlockKey, err := f.keys.lock(context.WithoutCancel(ctx), r.Key)
	if err != nil {
		return err
	}
	defer unlockKey()
	if err := f.dir.forget(volume, target); err != nil {
		return err
	}
	fault("forgotten")
	f.retire(r.Key)
	return nil
}

// check finds what a volume asks for in the tree of its server, and has it read ahead if it asks for that.
func (f *fleet) check(ctx context.Context, s *server, a attributes) error {
	root := f.dir.mount(s.key)
	if a["path"] != "" {
		if _, err := patiently(ctx, func() (struct{}, error) { return struct{}{}, checkShown(root, a["path"]) }); err != nil {
			return err
		}
	}
	return f.warm(ctx, s, a["warm"])
}

// unavailable returns the answer for an error of a server's mount. ENOTCONN stays as it is: publish takes the next server then.
func unavailable(err error, format string, args ...any) error {
	if errors.Is(err, unix.ENOTCONN) {
		return err
	}
	return status.Errorf(codes.Unavailable, format, args...)
}

// checkShown checks that a directory of the tree exists, and explains if it does not.
func checkShown(root, path string) error {
	first, _, _ := strings.Cut(path, "/")
	var described struct {
		Available *bool
		Reason    string
	}
	mount, err := os.OpenRoot(root)
	if err != nil {
		return unavailable(err, "%v", err)
	}
	defer mount.Close()
	if text, err := mount.ReadFile(filepath.Join(first, "tensorfs.json")); err == nil {
		if err := json.Unmarshal(text, &described); err == nil && described.Available != nil && !*described.Available {
			return status.Errorf(codes.InvalidArgument, "%s/ is absent: %s", first, tensorfs.OneLine(described.Reason))
		}
	}
	dir, err := openDirectory(root)
	if err == nil {
		defer unix.Close(dir)
		var fd int
		if fd, err = openBelow(dir, path); err == nil {
			return unix.Close(fd)
		}
	}
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return unavailable(err, "%s: %v", path, err)
	}
	var there []string
	entries, _ := iofs.ReadDir(mount.FS(), ".") // without them the text is shorter
	for _, e := range entries {
		if e.IsDir() && slices.Contains(shownDirectories, e.Name()) {
			there = append(there, e.Name())
		}
	}
	return status.Errorf(codes.InvalidArgument, "attribute path: the tree has no directory %s; there are %s", tensorfs.Quote(path), strings.Join(there, ", "))
}

// warmTick is how often a server is asked how far it is.
const warmTick = 200 * time.Millisecond

// warm waits until a model is read, if the volume asks for that, or starts reading it.
func (f *fleet) warm(ctx context.Context, s *server, how string) error {
	if how == "" {
		return nil
	}
	tick := time.NewTicker(warmTick)
	defer tick.Stop()
	for {
		st, err := patiently(ctx, func() (st warmth, err error) { return f.warmth(s) })
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return status.Errorf(codes.Unavailable, "the server of %s: %v", s.serves.public(), err)
		case how == warmMount:
			return nil
		case s.serves.isRemote() && f.cacheSize > 0 && st.total > f.cacheSize:
			return status.Errorf(codes.ResourceExhausted, "warm: %s: the model has %d bytes, and the cache of the node is for %d (--cache-size)", warmReady, st.total, f.cacheSize)
		case st.done:
			return nil
		case st.ended != "":
			return status.Errorf(codes.ResourceExhausted, "warm: %s: not all of %s was read: %s", warmReady, s.serves.public(), tensorfs.OneLine(st.ended))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return status.Errorf(codes.DeadlineExceeded, "%s is still being read (warm: %s)", s.serves.public(), warmReady)
		}
	}
}
