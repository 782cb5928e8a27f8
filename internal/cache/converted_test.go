package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// converted opens the converted models of a new cache.
func converted(t *testing.T) *Converted {
	t.Helper()
	c, err := OpenConverted(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// model makes a model with a file of n bytes that was used some hours ago. The
// caller closes it.
func model(t *testing.T, c *Converted, name string, n, hours int) *ConvertedModel {
	t.Helper()
	m, err := c.Model(name, "identity of "+name, true)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.Dir(), "f16", "x")
	when := time.Now().Add(-time.Duration(hours) * time.Hour)
	err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, n), 0o644), os.Chtimes(filepath.Join(m.dir, useName), when, when))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sources are the sources of the converted models that there are.
func sources(c *Converted) string {
	var list []string
	for _, f := range c.List() {
		list = append(list, f.Source)
	}
	return strings.Join(list, " ")
}

func closeAll(t *testing.T, models ...*ConvertedModel) {
	t.Helper()
	for _, m := range models {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestConvertedIsNotMadeUnasked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	c, err := OpenConverted(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.Model("x", "x", true); m != nil || err != nil {
		t.Error(m, err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the directory was made")
	}
	if c, err = OpenConverted(dir, true); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Model("x", "x", false); m != nil || err != nil || sources(c) != "" {
		t.Error(m, err, sources(c))
	}
	closeAll(t, model(t, c, "x", 10, 1))
	if c, err = OpenConverted(dir, false); err != nil {
		t.Fatal(err)
	}
	m, err := c.Model("renamed", "identity of x", false)
	if m == nil || err != nil {
		t.Fatal(m, err)
	}
	list := c.List()
	if len(list) != 1 || list[0].Source != "x" || list[0].Bytes != 10 || list[0].Disk < 10 || !list[0].InUse || list[0].Whole || !list[0].Converted || time.Since(list[0].LastUse) > time.Minute {
		t.Errorf("%+v", list)
	}
	closeAll(t, m)
	if list := c.List(); list[0].InUse {
		t.Error("it is still in use")
	}
	if m, err := c.Model("x", "another", false); m != nil || err != nil {
		t.Error(m, err)
	}
}

// TestConvertedDamaged uses nothing from a directory whose record does not match the model.
func TestConvertedDamaged(t *testing.T) {
	for name, text := range map[string]string{
		"cut": `{"version":1,"source":"x","iden`, "empty": "", "another": `{"version":1,"source":"x","identity":"another"}`, "version": `{"version":2,"source":"x","identity":"identity of x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := converted(t)
			m := model(t, c, "x", 10, 1)
			if err := os.WriteFile(filepath.Join(m.dir, recordName), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			closeAll(t, m)
			if m, err := c.Model("x", "identity of x", false); m != nil || err != nil {
				t.Error(m, err)
			}
			m, err := c.Model("x", "identity of x", true)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(m.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Error("files are still there:", err)
			}
			closeAll(t, m)
		})
	}
	// One that was killed before it wrote the record goes on.
	c := converted(t)
	m := model(t, c, "x", 10, 1)
	if err := os.Remove(filepath.Join(m.dir, recordName)); err != nil {
		t.Fatal(err)
	}
	closeAll(t, m, model(t, c, "x", 10, 1))
	if sources(c) != "x" {
		t.Error(sources(c))
	}
}

func TestConvertedPrune(t *testing.T) {
	const mib = 1 << 20
	all := func(string) bool { return true }
	for _, test := range []struct {
		name string
		do   func(c *Converted) (Swept, error)
		want string // that is left
		gone int
		held int
	}{
		{"everything", func(c *Converted) (Swept, error) { return c.Prune(PruneOptions{}) }, "open", 3, 1},
		{"the usual", func(c *Converted) (Swept, error) { return c.Prune(PruneOptions{Size: -1}) }, "new old older open", 0, 0},
		{"size", func(c *Converted) (Swept, error) { return c.Prune(PruneOptions{Size: 5 * mib / 2}) }, "new open", 2, 1},
		{"matching", func(c *Converted) (Swept, error) {
			return c.Prune(PruneOptions{Size: 1 << 40, Match: func(s string) bool { return s == "old" }})
		}, "new older open", 1, 0},
		{"all matching", func(c *Converted) (Swept, error) { return c.Prune(PruneOptions{Size: 1 << 40, Match: all}) }, "open", 3, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := converted(t)
			closeAll(t, model(t, c, "old", mib, 2), model(t, c, "new", mib, 1), model(t, c, "older", mib, 3))
			open := model(t, c, "open", mib, 4)
			defer open.Close()
			swept, err := test.do(c)
			if err != nil || swept.Entries != test.gone || swept.InUse != test.held || sources(c) != test.want {
				t.Errorf("%+v %v; left %s", swept, err, sources(c))
			}
			if left, err := os.ReadDir(filepath.Join(c.root, tmpDir)); len(left) > 0 || err != nil {
				t.Error(left, err)
			}
		})
	}
}

// TestConvertedRoom removes what was not used for longest, and no more than needed.
func TestConvertedRoom(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		n, limit, want int64
		left           string
	}{
		{mib, 0, mib, "new old own"},
		{mib, 9 * mib, mib, "new old own"},
		{mib, 7 * mib / 2, mib, "new own"},
		{3 * mib, 9 * mib / 2, 3 * mib, "own"},
		{8 * mib, 3 * mib, 2 * mib, "own"}, // too large for the remaining space
		{mib, mib / 2, 0, "own"},
	} {
		c := converted(t)
		closeAll(t, model(t, c, "old", mib, 2), model(t, c, "new", mib, 1))
		own := model(t, c, "own", mib, 3)
		n, err := c.Room(test.n, test.limit)
		const names = 64 << 10 // what directories and records take
		if err != nil || n > test.want || n < test.want-names || sources(c) != test.left {
			t.Errorf("%+v: room for %d, %v; left %s", test, n, err, sources(c))
		}
		closeAll(t, own)
	}
}

func TestConvertedLock(t *testing.T) {
	c := converted(t)
	m := model(t, c, "x", 1, 1)
	defer m.Close()
	unlock, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("why")
	stop(why)
	if _, err := m.Lock(ctx); err != why {
		t.Error(err)
	}
	got := make(chan error)
	go func() {
		unlock, err := m.Lock(t.Context())
		if err == nil {
			unlock()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestConvertedRefuses(t *testing.T) {
	c := converted(t)
	m := model(t, c, "x", 1, 1)
	closeAll(t, m)
	for _, dir := range []string{m.dir, filepath.Join(c.root, modelsDir), c.root} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		again, err := OpenConverted(filepath.Dir(c.root), false)
		if err == nil {
			_, err = again.Model("x", "identity of x", false)
		}
		if err == nil || !strings.Contains(err.Error(), "others may write to the cache") {
			t.Errorf("%s: %v", dir, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
