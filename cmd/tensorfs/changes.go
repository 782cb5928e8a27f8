package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// changeFlags are the values of --set and --unset.
type changeFlags struct{ set, unset []string }

// options takes the values of the flags into the options of whole models.
func (c *changeFlags) options(to *whole.Options, links source.Links) error {
	if len(c.set)+len(c.unset) == 0 || to.Changes != nil {
		return nil
	}
	var list []whole.Change
	for i, text := range c.set {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return usageError{fmt.Errorf("--set %s: want KEY=VALUE, KEY=TYPE:VALUE or KEY=@FILE", tensorfs.Quote(key))}
		}
		x := whole.Change{Key: key, Text: value}
		if file, ok := strings.CutPrefix(value, "@"); ok {
			abs, err := filepath.Abs(file) // the server may be in another directory
			if err != nil {
				return err
			}
			b, err := readNamed(abs, links, whole.MaxChangedValue+1)
			if err != nil {
				return fmt.Errorf("--set %s: %w", tensorfs.Printable(key), err)
			}
			c.set[i] = key + "=@" + abs
			x.Text, x.Plain = string(b), true
		}
		list = append(list, x)
	}
	for _, key := range c.unset {
		list = append(list, whole.Change{Key: key, Unset: true})
	}
	if err := whole.CheckChanges(list); err != nil {
		return usageError{fmt.Errorf("--set, --unset: %w", err)}
	}
	to.Changes = list
	return nil
}

// fact tells the changes from others: texts of files may be long.
func (c *changeFlags) fact(list []whole.Change) string {
	if len(list) == 0 {
		return "none"
	}
	h := sha256.New()
	for _, x := range list {
		fmt.Fprintf(h, "%q %v %v %q\n", x.Key, x.Unset, x.Plain, x.Text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// errChanges says that a model whose keys are known has none of a name, or that a value is none.
func errChanges(m *tensorfs.Model, o whole.Options, path string) error {
	if err := whole.CheckChangesOf(m, o.Changes); err != nil {
		return errors.New(printableName(path) + ": " + err.Error())
	}
	return nil
}

// readNamed returns the beginning of a regular file that the user named.
func readNamed(path string, links source.Links, most int64) ([]byte, error) {
	f, err := source.OpenNamed(path, links)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, min(f.Size(), most))
	return b, tensorfs.ReadFull(f, b, 0)
}
