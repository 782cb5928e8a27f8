package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
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

// ggufTypes are the values of --gguf-type, llama-quantize's names in lower case.
var ggufTypes = func() (names []string) {
	for _, p := range preset.All {
		names = append(names, strings.ToLower(p.Name))
	}
	return names
}()

// mlxModes are the names that --mlx-mode takes.
var mlxModes = func() (names []string) {
	for _, m := range convert.MLXModes {
		names = append(names, m.Name)
	}
	return names
}()

// modelFlags are the flags of every command that opens a model.
type modelFlags struct {
	models.Options
	views       string // of --views, names with commas between; "" for the default
	followLinks bool
	shared      bool // other users read what is opened
	keepInside  bool // links that leave the model's directory are refused, unless followLinks
	remote      remoteFlags

	checked *models.Checked // nil before check; for Files.KeepInside as it was then
}

func (f *modelFlags) add(s system, c *cobra.Command) {
	f.addReading(s, c)
	s.define(c, "", flags{"views": &f.views})
	s.define(c, "", f.Fields())
}

// addReading adds the flags of commands that read no whole-model file.
func (f *modelFlags) addReading(s system, c *cobra.Command) {
	s.define(c, "", flags{"i2s": &f.I2S, "follow-links": &f.followLinks, "lora": &f.LoRA})
	f.remote.add(s, c)
}

// check takes the values of the flags. Models of a library are opened side by side, so it does
// that once.
func (f *modelFlags) check() error {
	if inside := f.keepInside && !f.followLinks; f.checked == nil || f.Files.KeepInside != inside {
		if f.views != "" {
			f.Views = strings.FieldsFunc(f.views, isViewComma)
		}
		f.Files.KeepInside = inside
		f.Library = library.Options{Skip: isOurs}
		if formats.IsName(f.TypesFrom) { // its header is read here
			if err := f.remote.check(); err != nil {
				return err
			}
			files := f.remote.open().Formats(context.Background())
			files.KeepInside, files.OwnNames = inside, !f.shared
			f.Files = files
		}
		c, err := f.Check()
		if err != nil {
			return usageOf(err)
		}
		f.checked = c
	}
	return f.remote.check()
}

// isViewComma reports whether c separates names of views: a comma, or the colon of fstab,
// because a comma ends an option there.
func isViewComma(c rune) bool { return c == ',' || c == ':' }

// open opens the model and lays out its tree. The caller closes the model.
func (f *modelFlags) open(path string) (*tree.Tree, error) {
	return f.opened(func(c *models.Checked) (*models.Model, error) { return c.Open(path) })
}

// openListed opens a model of a library. The caller closes it.
func (f *modelFlags) openListed(listed *library.Model) (*tree.Tree, error) {
	return f.opened(func(c *models.Checked) (*models.Model, error) { return c.OpenListed(listed) })
}

// openAmong opens a model by its name as one of several, until ctx ends, which must not be while the
// model is in use. again opens a model of a server that was open before: it is not looked for on this
// machine. The caller closes the model.
func (f *modelFlags) openAmong(ctx context.Context, name string, again bool) (*tree.Tree, error) {
	files := f.remote.open().FormatsUntil(ctx, again)
	files.OwnNames = !f.shared
	files.AskFirst = files.AskFirst || again
	m, err := f.checked.In(files).OpenAmong(name)
	if err != nil {
		return nil, err
	}
	return m.Tree(), nil
}

// opened opens a model as the flags say. On a terminal it is said whom a model is asked for.
func (f *modelFlags) opened(open func(*models.Checked) (*models.Model, error)) (*tree.Tree, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	defer f.remote.notice()()
	defer memlimit.Opening()()
	files := f.remote.open().Formats(context.Background())
	files.OwnNames = !f.shared
	m, err := open(f.checked.In(files))
	if err != nil {
		return nil, usageOf(err)
	}
	return m.Tree(), nil
}

// usageOf returns an error as one of usage if it is about an option.
func usageOf(err error) error {
	if errors.Is(err, models.ErrOption) {
		return cli.UsageError{Err: err}
	}
	return err
}
