package models

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/imatrix"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Options say what is asked of a model. The zero value asks for the model as it is stored.
type Options struct {
	// Files configures how the model's files are found and read. With Formats of a Client
	// of package formats/remote they may be on servers.
	Files formats.Options
	// Library is about the folders that are searched to tell a model from a folder of models.
	Library library.Options
	// Top takes the model at the top of a folder even if more models are below it.
	Top bool

	Views []string // names of views, as --views; nil means the default
	I2S   string   // --i2s
	// LoRA are adapters, applied in order, as --lora: ADAPTER or ADAPTER:SCALE. See
	// [formats.CutScale].
	LoRA []string

	Convert
}

// Convert selects the contents of gguf/, hf/ and mlx/. Each field is the value of the
// command's flag of that name; an empty one was not given.
type Convert struct {
	GGUFType    string   // --gguf-type, such as "q4_k_m"
	Pure        bool     // --pure
	TensorTypes []string // --tensor-type
	TypesFrom   string   // --tensor-types-from, a GGUF file as Open names it
	Requantise  bool     // --requantise
	Imatrix     string   // --imatrix, a path

	MLXBits   string // --mlx-bits, such as "4"
	MLXGroup  string // --mlx-group
	MLXMode   string // --mlx-mode
	MLXRecipe string // --mlx-recipe
	MLXDevice string // --mlx-device

	Dequantise bool     // --dequantise
	Mmproj     string   // --mmproj, a path or [NoTower]
	Set        []string // --set: KEY=VALUE, KEY=TYPE:VALUE or KEY=@FILE
	Unset      []string // --unset
}

// Fields returns pointers to the fields by the names of their flags: *string, *bool or *[]string.
func (c *Convert) Fields() map[string]any {
	return map[string]any{
		"gguf-type": &c.GGUFType, "pure": &c.Pure, "tensor-type": &c.TensorTypes, "tensor-types-from": &c.TypesFrom, "requantise": &c.Requantise, "imatrix": &c.Imatrix,
		"mlx-bits": &c.MLXBits, "mlx-group": &c.MLXGroup, "mlx-mode": &c.MLXMode, "mlx-recipe": &c.MLXRecipe, "mlx-device": &c.MLXDevice,
		"dequantise": &c.Dequantise, "mmproj": &c.Mmproj, "set": &c.Set, "unset": &c.Unset,
	}
}

// Take sets a field by the text of its flag without the dashes: "gguf-type=q4_k_m", or "pure" for
// "pure=true". It is for interfaces that pass options as texts.
func (c *Convert) Take(text string) error {
	name, value, given := strings.Cut(text, "=")
	fields := c.Fields()
	switch to := fields[name].(type) {
	case *string:
		if given {
			*to = value
			return nil
		}
	case *[]string:
		if given {
			*to = append(*to, value)
			return nil
		}
	case *bool:
		on, err := strconv.ParseBool(cmp.Or(value, "true"))
		if err != nil {
			return optionError{fmt.Errorf("--%s %s: want true or false", name, tensorfs.Quote(value))}
		}
		*to = on
		return nil
	default:
		names := slices.Sorted(maps.Keys(fields))
		advice := "there are " + strings.Join(names, ", ")
		if close := near.Names(name, names, 3); len(close) > 0 {
			advice = near.Question(close)
		}
		return optionError{fmt.Errorf("%s is not an option of a model; %s", tensorfs.Quote(name), advice)}
	}
	return optionError{fmt.Errorf("--%s: it wants a value", name)}
}

// ErrOption marks errors about an option that makes no sense for any model.
var ErrOption = errors.New("invalid option")

// optionError is such an error.
type optionError struct{ error }

func (e optionError) Unwrap() error        { return e.error }
func (e optionError) Is(target error) bool { return target == ErrOption }

// Checked are options that make sense. They open any number of models, also concurrently.
type Checked struct {
	Tree tree.Options // of the trees of all these models; the search for a vision tower is added for each

	options    Options
	importance io.Closer // nil without
}

// Check checks options that are the same for all models. It makes their paths absolute, so that
// they hold in another working directory. What it opens, Close of the result closes.
func (o *Options) Check() (c *Checked, err error) {
	c = &Checked{}
	c.Tree.Views.I2S = o.I2S
	if o.I2S != "" && !slices.Contains(views.I2SLayouts, o.I2S) {
		return nil, optionError{fmt.Errorf("--i2s %q: want %s", o.I2S, near.Either(views.I2SLayouts))}
	}
	if o.Views != nil {
		if c.Tree.Views.Views, err = views.Choose(o.Views); err != nil {
			return nil, optionError{fmt.Errorf("--views: %w", err)}
		}
	}
	if err := o.absolute(); err != nil {
		return nil, err
	}
	to := &c.Tree.Whole
	to.Dequantise = o.Dequantise
	links := source.Links(o.Files.KeepInside)
	if err := o.types(to); err != nil {
		return nil, err
	}
	if err := o.typesFrom(to); err != nil {
		return nil, err
	}
	if to.Quantise != nil && o.Imatrix != "" {
		if to.Importance, c.importance, err = openImportance(o.Imatrix, links); err != nil {
			return nil, err
		}
	}
	if to.Changes, err = o.changes(links); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.options = *o
	return c, nil
}

// Close closes the importance matrix, after the last use of the models.
func (c *Checked) Close() error {
	if c.importance == nil {
		return nil
	}
	return c.importance.Close()
}

// absolute makes paths independent of the working directory, which a server leaves.
func (o *Options) absolute() (err error) {
	for _, path := range []*string{&o.Mmproj, &o.Imatrix, &o.TypesFrom} {
		if path == &o.TypesFrom && formats.IsName(*path) {
			continue
		}
		if *path != "" && *path != NoTower && !filepath.IsAbs(*path) {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	for i, named := range o.LoRA {
		if named == "" {
			return optionError{errors.New("--lora: name an adapter")}
		}
		if !formats.IsName(named) && !filepath.IsAbs(named) {
			if o.LoRA[i], err = filepath.Abs(named); err != nil {
				return err
			}
		}
	}
	return nil
}

// types takes the options about types in gguf/ and mlx/.
func (c *Convert) types(to *convert.Options) (err error) {
	if to.MLX, err = c.mlx(); err != nil {
		return err
	}
	if c.GGUFType == "" && c.TypesFrom == "" {
		if c.Pure || c.Requantise && to.MLX == nil || len(c.TensorTypes) > 0 || c.Imatrix != "" {
			return optionError{errors.New("--pure, --tensor-type, --imatrix and --requantise say how --gguf-type is meant; give that flag too, such as --gguf-type q4_k_m")}
		}
		return nil
	}
	var p preset.Preset
	if c.GGUFType != "" {
		if p, err = preset.Named(c.GGUFType); err != nil {
			return optionError{fmt.Errorf("--gguf-type: %w", err)}
		}
	}
	to.Quantise = &preset.Options{Preset: p, Pure: c.Pure, Requantise: c.Requantise, Implied: c.GGUFType == ""}
	for _, rule := range c.TensorTypes {
		r, err := preset.RuleOf(rule)
		if err == nil && p.Type.Kind() == tensorfs.KindFloat && c.TypesFrom == "" {
			err = fmt.Errorf("%s has no other types", p.Name)
		}
		if err != nil {
			return optionError{fmt.Errorf("--tensor-type %s: %w", rule, err)}
		}
		to.Quantise.Rules = append(to.Quantise.Rules, r)
	}
	return nil
}

// typesFrom takes the types of another file.
func (o *Options) typesFrom(to *convert.Options) (err error) {
	if o.TypesFrom == "" {
		return nil
	}
	name := conceal.Printable(o.TypesFrom)
	m, err := o.Files.Open(o.TypesFrom)
	if err != nil {
		return concealed(fmt.Errorf("--tensor-types-from: %w", err), []string{o.TypesFrom})
	}
	defer m.Close()
	q := to.Quantise
	if q.From, err = convert.Mix(m, path.Base(name)); err == nil {
		err = q.From.CheckMade(q.Rules)
	}
	if err != nil {
		return fmt.Errorf("--tensor-types-from %s: %w", name, err)
	}
	if q.Implied {
		q.Preset = q.From.Preset()
	}
	return nil
}

// mlx takes the options about types in mlx/; nil if none is given.
func (c *Convert) mlx() (o *convert.MLX, err error) {
	asked := convert.MLXAsked{Mode: c.MLXMode, Recipe: c.MLXRecipe, Device: c.MLXDevice}
	for _, f := range []struct {
		flag, value, example string
		to                   *int
	}{{"bits", c.MLXBits, "4", &asked.Bits}, {"group", c.MLXGroup, "64", &asked.Group}} {
		if f.value == "" {
			continue
		}
		if *f.to, err = strconv.Atoi(f.value); err != nil || *f.to < 1 {
			return nil, optionError{fmt.Errorf("--mlx-%s %q: want a number, such as %s", f.flag, f.value, f.example)}
		}
	}
	if o, err = asked.Options(); err != nil {
		return nil, optionError{err}
	}
	if o != nil {
		o.Requantise = c.Requantise
	}
	return o, nil
}

// Types returns the options about types in gguf/ and mlx/ as a user would write them.
func (c *Convert) Types() string {
	words := []string{cmp.Or(c.GGUFType, "the default")}
	if c.Pure {
		words = append(words, "--pure")
	}
	for _, r := range c.TensorTypes {
		words = append(words, "--tensor-type "+r)
	}
	if c.TypesFrom != "" {
		words = append(words, "--tensor-types-from "+conceal.Printable(c.TypesFrom))
	}
	if c.Requantise {
		words = append(words, "--requantise")
	}
	if c.Imatrix != "" {
		words = append(words, "--imatrix "+c.Imatrix)
	}
	if o, err := c.mlx(); err == nil && o != nil {
		words = append(words, o.String())
	}
	return strings.Join(words, " ")
}

// AsksMLX reports whether an option about types in mlx/ is given.
func (c *Convert) AsksMLX() bool {
	return c.MLXBits != "" || c.MLXGroup != "" || c.MLXMode != "" || c.MLXRecipe != "" || c.MLXDevice != ""
}

// openImportance opens an importance matrix and the file that it reads.
func openImportance(path string, links source.Links) (*imatrix.Matrix, io.Closer, error) {
	fail := func(err error) error { return fmt.Errorf("--imatrix %s: %w", conceal.Printable(path), err) }
	f, err := source.OpenNamed(path, links)
	if err != nil {
		return nil, nil, fail(err)
	}
	m, err := imatrix.Open(f)
	if err != nil {
		return nil, nil, errors.Join(fail(err), f.Close())
	}
	m.File = filepath.Base(path)
	return m, f, nil
}

// changes takes Set and Unset. Paths in Set become absolute.
func (c *Convert) changes(links source.Links) (list []convert.Change, err error) {
	for i, text := range c.Set {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, optionError{fmt.Errorf("--set %s: want KEY=VALUE, KEY=TYPE:VALUE or KEY=@FILE", tensorfs.Quote(key))}
		}
		x := convert.Change{Key: key, Text: value}
		if file, ok := strings.CutPrefix(value, "@"); ok {
			abs, err := filepath.Abs(file)
			if err != nil {
				return nil, err
			}
			b, err := readNamed(abs, links, convert.MaxChangedValue+1)
			if err != nil {
				return nil, fmt.Errorf("--set %s: %w", tensorfs.Printable(key), err)
			}
			c.Set[i] = key + "=@" + abs
			x.Text, x.Plain = string(b), true
		}
		list = append(list, x)
	}
	for _, key := range c.Unset {
		list = append(list, convert.Change{Key: key, Unset: true})
	}
	if err := convert.CheckChanges(list); err != nil {
		return nil, optionError{fmt.Errorf("--set, --unset: %w", err)}
	}
	return list, nil
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
