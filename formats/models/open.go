package models

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/models/merged"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/views/lora"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Model is a model that is open, with everything that was asked of it.
type Model struct {
	*tensorfs.Model
	// Options lay out the model's tree, and the files in its gguf/, hf/ and mlx/.
	Options tree.Options

	tree func() *tree.Tree
}

// Tree returns the model as the directory that a mount shows.
func (m *Model) Tree() *tree.Tree { return m.tree() }

// Open opens the model of a name: a path, a recipe of a merge, the name of a model in a store, or
// an address. The error is one line without secrets, and wraps ErrOption if an option makes no
// sense.
func Open(name string, o Options) (*Model, error) {
	return o.open(func(c *Checked) (*Model, error) { return c.Open(name) })
}

// OpenListed opens a model of a library; see [Checked.OpenListed].
func OpenListed(listed *library.Model, o Options) (*Model, error) {
	return o.open(func(c *Checked) (*Model, error) { return c.OpenListed(listed) })
}

// Of asks the options of a model that is open. It closes the model on error.
func Of(m *tensorfs.Model, o Options) (*Model, error) {
	opened := false
	of, err := o.open(func(c *Checked) (*Model, error) {
		opened = true
		return c.prepare(m, m.Path, false)
	})
	if !opened {
		err = errors.Join(err, m.Close())
	}
	return of, err
}

// open opens one model, which owns what the options opened. The caller's lists stay as they are.
func (o Options) open(open func(*Checked) (*Model, error)) (*Model, error) {
	o.LoRA, o.Set = slices.Clone(o.LoRA), slices.Clone(o.Set)
	c, err := o.Check()
	if err != nil {
		return nil, concealed(err, o.LoRA)
	}
	m, err := open(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	m.Own(c)
	return m, nil
}

// Open opens the model of a name; see [Open].
func (c *Checked) Open(name string) (_ *Model, err error) {
	defer func() { err = concealed(err, append(slices.Clone(c.options.LoRA), name)) }()
	defer rescue.To(&err, conceal.Printable(name))
	m, err := merged.OpenPath(c.options.Files, name)
	if err != nil {
		return nil, err
	}
	return c.prepare(m, name, !c.options.Top && !formats.IsName(name))
}

// In returns the options for models whose files are found in another way. KeepInside stays as it
// was checked.
func (c *Checked) In(files formats.Options) *Checked {
	in := *c
	files.KeepInside = c.options.Files.KeepInside
	in.options.Files = files
	return &in
}

// OpenListed opens a model of a library. No adapter is applied to it, and it may be one that the
// options about types change nothing of.
func (c *Checked) OpenListed(listed *library.Model) (*Model, error) {
	m, err := c.options.Files.OpenBelow(listed.Root, listed.Rel)
	if err != nil {
		return nil, err
	}
	if formats.IsName(listed.Call) {
		m.Name = listed.Call
	}
	return c.laidOut(m, true), nil
}

// OpenAmong opens a model by its name as one of several; see [Checked.OpenListed].
func (c *Checked) OpenAmong(name string) (_ *Model, err error) {
	defer func() { err = concealed(err, []string{name}) }()
	m, err := c.options.Files.Open(name)
	if err != nil {
		return nil, err
	}
	return c.laidOut(m, true), nil
}

// prepare applies adapters to a model, which it closes on error, and checks that the options change
// what they say they do. single holds that path is not a folder of several models.
func (c *Checked) prepare(m *tensorfs.Model, path string, single bool) (*Model, error) {
	if err := c.check(m, path, single); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return c.laidOut(m, false), nil
}

// check is the part of [Checked.of] that may fail.
func (c *Checked) check(m *tensorfs.Model, path string, single bool) error {
	o := &c.Tree.Whole
	if len(c.options.LoRA) > 0 {
		if err := lora.Open(m, c.Tree.Views, c.options.LoRA, c.options.Files.OpenAdapter); err != nil {
			return fmt.Errorf("--lora: %w", err)
		}
	}
	if file := c.options.Mmproj; file != "" && file != NoTower && m.Layout != "gguf" {
		return optionError{fmt.Errorf("%s: --mmproj %s changes nothing: a model that is not in GGUF's layout has its vision tower in its own files; leave it out", conceal.Printable(path), conceal.Printable(file))}
	}
	if single {
		if err := library.Several(path, m, c.options.Library); err != nil {
			return err
		}
	}
	const advice = "leave it out, name a model in F16, BF16 or F32, or add --requantise"
	if why := convert.Kept(m, *o); why != "" {
		return fmt.Errorf("%s: %s changes nothing: %s; %s", conceal.Printable(path), c.typesFlag(), why, advice)
	}
	if err := c.WrongImportance(m); err != nil {
		return err
	}
	if why := hf.KeptMLX(m, *o); why != "" {
		return fmt.Errorf("%s: %s changes nothing: %s; %s", conceal.Printable(path), o.MLX, why, advice)
	}
	if why := hf.KeptPacked(m, *o); why != "" {
		return fmt.Errorf("%s: --dequantise changes nothing: %s; leave it out", conceal.Printable(path), why)
	}
	if err := convert.CheckChangesOf(m, o.Changes); err != nil {
		return errors.New(conceal.Printable(path) + ": " + err.Error())
	}
	return nil
}

// laidOut returns a model with the options of its tree, which find its vision tower.
func (c *Checked) laidOut(m *tensorfs.Model, listed bool) *Model {
	opts := c.Tree
	if m.Layout == "gguf" {
		t := &towers{options: &c.options, listed: listed}
		m.Own(t)
		opts.Whole.Projector = t.openTower
	}
	return &Model{m, opts, sync.OnceValue(func() *tree.Tree { return tree.New(m, opts) })}
}

// typesFlag is the flag that asks for types.
func (c *Checked) typesFlag() string {
	if c.Tree.Whole.Quantise.Implied {
		return "--tensor-types-from " + conceal.Printable(c.options.TypesFrom)
	}
	return "--gguf-type " + strings.ToLower(c.Tree.Whole.Quantise.Name)
}

// WrongImportance is the error about an importance matrix that was computed from another
// model, or that is missing.
func (c *Checked) WrongImportance(m *tensorfs.Model) error {
	switch why := convert.WrongImportance(m, c.Tree.Whole); {
	case why == "":
		return nil
	case c.options.Imatrix == "":
		return fmt.Errorf("%s: %s", c.typesFlag(), why)
	default:
		return fmt.Errorf("--imatrix %s: %s", conceal.Printable(c.options.Imatrix), why)
	}
}

// concealed hides secrets of the given names, and of other addresses, in an error.
func concealed(err error, names []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if public := conceal.Text(text, names...); public != text {
		return concealedError{err, public}
	}
	return err
}

type concealedError struct {
	error
	text string
}

func (e concealedError) Error() string { return e.text }
func (e concealedError) Unwrap() error { return e.error }
