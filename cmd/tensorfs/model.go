package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/imatrix"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
	"github.com/tensorfs/tensorfs/views/tree/whole"
	"github.com/tensorfs/tensorfs/views/tree/whole/hfdir"
	"github.com/tensorfs/tensorfs/views/tree/whole/preset"
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

// ggufTypes are the names that --gguf-type takes, those of llama-quantize in lower case.
var ggufTypes = func() (names []string) {
	for _, p := range preset.All {
		names = append(names, strings.ToLower(p.Name))
	}
	return names
}()

// mlxModes are the names that --mlx-mode takes.
var mlxModes = func() (names []string) {
	for _, m := range whole.MLXModes {
		names = append(names, m.Name)
	}
	return names
}()

// quantisation is what flags say of the types in gguf/ and mlx/.
type quantisation struct {
	preset     string   // of --gguf-type, "" without
	pure       bool     // of --pure
	rules      []string // of --tensor-type
	requantise bool     // of --requantise
	importance string   // of --imatrix

	mlx mlxFlags
}

// mlxFlags are the values of --mlx-bits and so on.
type mlxFlags struct{ bits, group, mode, recipe, device string }

// askedOfMLX takes what flags say of mlx/.
func (q *quantisation) askedOfMLX() (o *whole.MLX, err error) {
	asked := whole.MLXAsked{Mode: q.mlx.mode, Recipe: q.mlx.recipe, Device: q.mlx.device}
	for _, f := range []struct {
		flag, value string
		to          *int
	}{{"bits", q.mlx.bits, &asked.Bits}, {"group", q.mlx.group, &asked.Group}} {
		if f.value == "" {
			continue
		}
		if *f.to, err = strconv.Atoi(f.value); err != nil || *f.to < 1 {
			return nil, usageError{fmt.Errorf("--mlx-%s %q: want a number, such as %s", f.flag, f.value, map[string]string{"bits": "4", "group": "64"}[f.flag])}
		}
	}
	if o, err = asked.Options(); err != nil {
		return nil, usageError{err}
	}
	if o != nil {
		o.Requantise = q.requantise
	}
	return o, nil
}

// options takes the values of the flags into the options of whole models.
func (q *quantisation) options(to *whole.Options, links source.Links) (err error) {
	if to.MLX, err = q.askedOfMLX(); err != nil {
		return err
	}
	if q.preset == "" {
		if q.pure || q.requantise && to.MLX == nil || len(q.rules) > 0 || q.importance != "" {
			return usageError{errors.New("--pure, --tensor-type, --imatrix and --requantise say how --gguf-type is meant; give that flag too, such as --gguf-type q4_k_m")}
		}
		return nil
	}
	p, err := preset.Named(q.preset)
	if err != nil {
		return usageError{fmt.Errorf("--gguf-type: %w", err)}
	}
	o := &preset.Options{Preset: p, Pure: q.pure, Requantise: q.requantise}
	for _, rule := range q.rules {
		r, err := preset.RuleOf(rule)
		if err == nil && p.Type.Kind() == tensorfs.KindFloat {
			err = fmt.Errorf("%s has no other types", p.Name)
		}
		if err != nil {
			return usageError{fmt.Errorf("--tensor-type %s: %w", rule, err)}
		}
		o.Rules = append(o.Rules, r)
	}
	if to.Importance, err = openImportance(q.importance, links); err != nil {
		return err
	}
	to.Quantise = o
	return nil
}

// openImportance opens an importance matrix, which stays open; nil for no path.
func openImportance(path string, links source.Links) (*imatrix.Matrix, error) {
	if path == "" {
		return nil, nil
	}
	fail := func(err error) error { return fmt.Errorf("--imatrix %s: %w", printableName(path), err) }
	f, err := source.OpenNamed(path, links)
	if err != nil {
		return nil, fail(err)
	}
	m, err := imatrix.Open(f)
	if err != nil {
		return nil, errors.Join(fail(err), f.Close())
	}
	m.File = filepath.Base(path)
	return m, nil
}

// checkImportance refuses an importance matrix that is not one of the model.
func (q *quantisation) checkImportance(m *tensorfs.Model, o whole.Options) error {
	if why := whole.WrongImportance(m, o); why != "" {
		return fmt.Errorf("--imatrix %s: %s; name one that llama-imatrix made of this model", printableName(q.importance), why)
	}
	return nil
}

// String is the flags as one would write them.
func (q *quantisation) String() string {
	words := []string{cmp.Or(q.preset, "the default")}
	if q.pure {
		words = append(words, "--pure")
	}
	for _, r := range q.rules {
		words = append(words, "--tensor-type "+r)
	}
	if q.requantise {
		words = append(words, "--requantise")
	}
	if q.importance != "" {
		words = append(words, "--imatrix "+q.importance)
	}
	if o, err := q.askedOfMLX(); err == nil && o != nil {
		words = append(words, o.String())
	}
	return strings.Join(words, " ")
}

// modelFlags are the flags of every command that opens a model.
type modelFlags struct {
	tree        tree.Options
	views       string // of --views, names with commas between; "" for the default
	quantise    quantisation
	changes     changeFlags
	mmproj      string   // of --mmproj, a path or noTower
	lora        []string // of --lora, adapters in order
	followLinks bool
	shared      bool // other users read what is opened
	keepInside  bool // links that leave the model's directory are refused, unless followLinks
	remote      remoteFlags
}

func (f *modelFlags) add(s system, c *cobra.Command) {
	f.addReading(s, c)
	s.define(c, "", flags{
		"views": &f.views, "gguf-type": &f.quantise.preset, "pure": &f.quantise.pure, "tensor-type": &f.quantise.rules, "requantise": &f.quantise.requantise,
		"imatrix": &f.quantise.importance, "mmproj": &f.mmproj, "dequantise": &f.tree.Whole.Dequantise,
		"mlx-bits": &f.quantise.mlx.bits, "mlx-group": &f.quantise.mlx.group, "mlx-mode": &f.quantise.mlx.mode,
		"mlx-recipe": &f.quantise.mlx.recipe, "mlx-device": &f.quantise.mlx.device,
		"set": &f.changes.set, "unset": &f.changes.unset,
	})
}

// addReading adds those of commands that look at no whole-model file.
func (f *modelFlags) addReading(s system, c *cobra.Command) {
	s.define(c, "", flags{"i2s": &f.tree.Views.I2S, "follow-links": &f.followLinks, "lora": &f.lora})
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
	for _, path := range []*string{&f.mmproj, &f.quantise.importance} { // the server may be in another directory
		if *path != "" && *path != noTower && !filepath.IsAbs(*path) {
			abs, err := filepath.Abs(*path)
			if err != nil {
				return err
			}
			*path = abs
		}
	}
	if err := f.absoluteAdapters(); err != nil {
		return err
	}
	if f.tree.Whole.Quantise == nil && f.tree.Whole.MLX == nil { // models of a library are opened side by side
		if err := f.quantise.options(&f.tree.Whole, f.links()); err != nil {
			return err
		}
	}
	if err := f.changes.options(&f.tree.Whole, f.links()); err != nil {
		return err
	}
	return f.remote.check()
}

// isViewComma reports whether c stands between names of views: a comma, or the colon
// of fstab, where a comma ends an option.
func isViewComma(c rune) bool { return c == ',' || c == ':' }

// open opens the model and lays out its tree. The caller closes the model.
func (f *modelFlags) open(path string) (t *tree.Tree, err error) {
	defer rescue.To(&err, printableName(path))
	o, quiet, err := f.options()
	if err != nil {
		return nil, err
	}
	m, err := f.openAdapted(o, path)
	quiet()
	if err != nil {
		return nil, err
	}
	if !formats.IsName(path) {
		err = library.Several(path, m, library.Options{Skip: isOurs})
	}
	if why := whole.Kept(m, f.tree.Whole); err == nil && why != "" {
		err = fmt.Errorf("%s: --gguf-type %s changes nothing: %s; leave it out, name a model in F16, BF16 or F32, or add --requantise",
			printableName(path), strings.ToLower(f.tree.Whole.Quantise.Name), why)
	}
	if err == nil {
		err = f.quantise.checkImportance(m, f.tree.Whole)
	}
	if why := hfdir.KeptMLX(m, f.tree.Whole); err == nil && why != "" {
		err = fmt.Errorf("%s: %s changes nothing: %s; leave it out, name a model in F16, BF16 or F32, or add --requantise", printableName(path), f.tree.Whole.MLX, why)
	}
	if why := hfdir.KeptPacked(m, f.tree.Whole); err == nil && why != "" {
		err = fmt.Errorf("%s: --dequantise changes nothing: %s; leave it out", printableName(path), why)
	}
	if err == nil {
		err = errChanges(m, f.tree.Whole, path)
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
	o.KeepInside, o.OwnNames = bool(f.links()), !f.shared
	return o, quiet, nil
}

// links says how far the command follows links.
func (f *modelFlags) links() source.Links { return source.Links(f.keepInside && !f.followLinks) }
