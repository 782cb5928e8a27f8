package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

// revive starts a server whose predecessor is gone, if volumes are bound to it, and binds
// again the volumes that it could not take over. last is the predecessor, nil if unknown.
func (f *fleet) revive(key string, last *server, delay time.Duration) {
	unlock, err := f.keys.lock(context.Background(), key)
	if err != nil {
		return
	}
	all, err := f.dir.records()
	if err != nil {
		f.log.Warn("records cannot be read", "error", err)
	}
	users := recordsOf(all, key)
	var sec secrets
	if last != nil {
		sec = last.secrets
	}
	if len(users) == 0 {
		f.retire(key)
		unlock()
		return
	}
	a := users[0].Attributes
	s, follows, err := f.current(key, a)
	if err == nil && s == nil {
		if users[0].Secrets != "" && (sec.line == nil || !agree(users, sec.sum)) {
			f.log.Info("kubelet will bring the secrets for a server", "key", key)
			unlock()
			return
		}
		s, err = f.start(key, a, sec, wantsWarm(users), follows)
	}
	if err == nil {
		s.users++
	}
	unlock()
	if err == nil {
		f.mu.Lock()
		s.delay = delay
		f.mu.Unlock()
		err = s.wait(context.Background())
	}
	if err == nil {
		for _, r := range users {
			err = errors.Join(err, f.rebind(r))
		}
	}
	if err != nil {
		f.log.Warn("a server is not there again; kubelet asks for it", "key", key, "model", a.public(), "error", err)
	}
	if s == nil {
		return
	}
	if unlock, err := f.keys.lock(context.Background(), key); err == nil {
		f.release(s)
		unlock()
	}
}

func wantsWarm(users []record) bool {
	return slices.ContainsFunc(users, func(r record) bool { return r.Attributes["warm"] != "" })
}

// countTakeover notes whether a server that follows one that was gone has its mount.
func (f *fleet) countTakeover(s *server) {
	result := "anew"
	if st, err := f.status(s.key); err == nil && st.Taken > 0 {
		result = "taken"
	}
	f.counters.takeovers.WithLabelValues(result).Inc()
}

// rebind binds a volume whose server is another one, if it is bound to a mount that is gone.
func (f *fleet) rebind(r record) error {
	ctx := context.Background()
	unlock, err := f.targets.lock(ctx, r.Target)
	if err != nil {
		return err
	}
	defer unlock()
	unlockKey, err := f.keys.lock(ctx, r.Key)
	if err != nil {
		return err
	}
	defer unlockKey()
	now, err := f.dir.readRecord(r.Volume, r.Target)
	if err != nil || now == nil {
		return err
	}
	m, err := top(r.Target)
	if err != nil || m == nil { // kubelet knows whether it is wanted still
		return err
	}
	return f.show(now)
}

// restore resumes after an earlier driver: servers go on, are restarted, or end if no
// volume is bound to them.
func (f *fleet) restore() error {
	all, err := f.dir.records()
	if err != nil {
		f.log.Error("a record cannot be read", "error", err)
	}
	keys := map[string]bool{}
	for _, r := range all {
		keys[r.Key] = true
	}
	entries, err := os.ReadDir(f.dir.mounts())
	if err != nil {
		return err
	}
	for _, e := range entries {
		keys[e.Name()] = true
	}
	for key := range keys {
		go f.restoreKey(key, recordsOf(all, key))
	}
	return nil
}

func (f *fleet) restoreKey(key string, users []record) {
	unlock, err := f.keys.lock(context.Background(), key)
	if err != nil {
		return
	}
	if len(users) == 0 {
		if f.running(key) == nil && !f.isUsed(key) { // a call may have been faster
			f.stop(key)
		}
		unlock()
		return
	}
	unlock()
	f.revive(key, nil, 0)
}

const (
	// sweepTime is how often records are looked at.
	sweepTime = time.Minute
	// goneTime is for how long the target of a record has to be missing until the record is removed: while a node
	// starts, kubelet has not made all of them.
	goneTime = 10 * time.Minute
)

// sweep removes records of volumes whose targets are gone, because their pods were deleted while no driver was there.
func (f *fleet) sweep(ctx context.Context) {
	gone := map[string]time.Time{}
	for tick := time.NewTicker(sweepTime); ; {
		f.sweepOnce(gone, time.Now())
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// sweepOnce is sweep for one time. gone has when a target was first missing.
func (f *fleet) sweepOnce(gone map[string]time.Time, now time.Time) {
	all, _ := f.dir.records() // what cannot be read is said when it is needed
	for _, r := range all {
		id := f.dir.record(r.Volume, r.Target)
		if m, err := top(r.Target); err != nil || m != nil {
			delete(gone, id)
			continue
		}
		if _, err := os.Lstat(r.Target); !errors.Is(err, os.ErrNotExist) {
			delete(gone, id)
			continue
		}
		since, ok := gone[id]
		if !ok {
			gone[id] = now
			continue
		}
		if now.Sub(since) < goneTime {
			continue
		}
		delete(gone, id)
		f.log.Info("the target of a volume is gone; forgetting it", "volume", r.Volume, "target", r.Target)
		if err := f.unpublish(context.Background(), r.Volume, r.Target); err != nil {
			f.log.Warn("a volume cannot be forgotten", "volume", r.Volume, "error", err)
		}
	}
}
