package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// i2sLayouts lists the layouts of I2_S codes for messages.
var i2sLayouts = near.Either(views.I2SLayouts)

// viewList lists the views for help texts.
var viewList = func() string {
	var usual, others []string
	for _, v := range views.All {
		if v.OnRequest {
			others = append(others, v.Name)
		} else {
			usual = append(usual, v.Name)
		}
	}
	return strings.Join(usual, ", ") + " (all these: " + views.Default + ") and " + strings.Join(others, ", ")
}()

// ggufTypes are the types that --gguf-type takes.
var ggufTypes = map[string]tensorfs.DType{
	"": tensorfs.Unknown, "q8_0": tensorfs.Q8_0, "q4_0": tensorfs.Q4_0, "f16": tensorfs.F16, "bf16": tensorfs.BF16,
}

const ggufTypeList = "q8_0, q4_0, f16 or bf16"

// otherTypes matches what else llama-quantize calls its types.
var otherTypes = lazyRegexp(`^(f32|copy|i?q[1-8]_[a-z0-9_]+|tq[12]_0|(mx|nv)fp4(_moe)?)$`)

// setGGUFType takes the value of --gguf-type.
func (f *modelFlags) setGGUFType() error {
	name := strings.ToLower(f.ggufType)
	to, ok := ggufTypes[name]
	switch {
	case !ok && otherTypes().MatchString(name):
		return usageError{fmt.Errorf("--gguf-type %s: tensorfs does not quantise to this type, only to %s; llama-quantize makes it of the file that tensorfs cat MODEL gguf/model.gguf writes", f.ggufType, ggufTypeList)}
	case !ok:
		return usageError{fmt.Errorf("--gguf-type %q: want %s", f.ggufType, ggufTypeList)}
	}
	if f.ggufType != name || f.tree.Whole.Type != to { // models of a library are opened side by side
		f.ggufType, f.tree.Whole.Type = name, to
	}
	return nil
}

// modelFlags are the flags of every command that opens a model.
type modelFlags struct {
	tree        tree.Options
	views       string // of --views, names with commas between; "" for the default
	ggufType    string // of --gguf-type, a row of ggufTypes
	mmproj      string // of --mmproj, a path or noTower
	followLinks bool
	keepInside  bool // links that leave the model's directory are refused, unless followLinks
	remote      remoteFlags
}

func (f *modelFlags) add(s system, c *cobra.Command) {
	f.addReading(s, c)
	s.define(c, "", flags{"views": &f.views, "gguf-type": &f.ggufType, "mmproj": &f.mmproj})
}

// addReading adds those of commands that look at no whole-model file.
func (f *modelFlags) addReading(s system, c *cobra.Command) {
	s.define(c, "", flags{"i2s": &f.tree.Views.I2S, "follow-links": &f.followLinks})
	f.remote.add(s, c)
}

// check takes the values of the flags.
func (f *modelFlags) check() error {
	if f.tree.Views.I2S != "" && !slices.Contains(views.I2SLayouts, f.tree.Views.I2S) {
		return usageError{fmt.Errorf("--i2s %q: want %s", f.tree.Views.I2S, i2sLayouts)}
	}
	if f.views != "" {
		var err error
		if f.tree.Views.Views, err = views.Choose(strings.FieldsFunc(f.views, isViewComma)); err != nil {
			return usageError{fmt.Errorf("--views: %w", err)}
		}
	}
	if err := f.setGGUFType(); err != nil {
		return err
	}
	if f.mmproj != "" && f.mmproj != noTower && !filepath.IsAbs(f.mmproj) { // the server may be in another directory
		var err error
		if f.mmproj, err = filepath.Abs(f.mmproj); err != nil {
			return err
		}
	}
	return f.remote.check()
}

// isViewComma reports whether c stands between names of views: a comma, or the colon
// of fstab, where a comma ends an option.
func isViewComma(c rune) bool { return c == ',' || c == ':' }

// open opens the model and lays out its tree. The caller closes the model.
func (f *modelFlags) open(path string) (*tree.Tree, error) {
	o, quiet, err := f.options()
	if err != nil {
		return nil, err
	}
	m, err := o.Open(path)
	quiet()
	if err != nil {
		return nil, err
	}
	if !formats.IsName(path) {
		err = library.Several(path, m, library.Options{Skip: isOurs})
	}
	if why := whole.Kept(m, f.tree.Whole.Type); err == nil && why != "" {
		err = fmt.Errorf("%s: --gguf-type %s changes nothing: %s; leave it out, or name a model in F16, BF16 or F32", printableName(path), f.ggufType, why)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return tree.New(m, f.withTower(m, false)), nil
}

// openListed opens a model of a library. The caller closes it.
func (f *modelFlags) openListed(listed *library.Model) (*tree.Tree, error) {
	o, quiet, err := f.options()
	if err != nil {
		return nil, err
	}
	defer quiet()
	m, err := openBelow(o, listed)
	if err != nil {
		return nil, err
	}
	return tree.New(m, f.withTower(m, true)), nil
}

// options are those of the flags. On a terminal it is said whom a model is asked for, until
// quiet is called.
func (f *modelFlags) options() (o formats.Options, quiet func(), err error) {
	if err := f.check(); err != nil {
		return o, nil, err
	}
	quiet = f.remote.notice()
	o = f.remote.open().Formats(context.Background())
	o.KeepInside = f.keepInside && !f.followLinks
	return o, quiet, nil
}
