package assemble

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// Settings are what MLX recorded about how the modules of a model are quantised.
type Settings struct {
	Object jsonobj.Object // the source of the settings
	Where  string         // for messages

	usual, stacked params // of modules without their own
}

// params are the parameters in an object, or why they cannot be used.
type params struct {
	Params
	err error
}

// Scopes returns the objects of a config.json that may say how the language model
// is quantised, with their names for messages.
func Scopes(config jsonobj.Object) iter.Seq2[string, jsonobj.Object] {
	return func(yield func(string, jsonobj.Object) bool) {
		path, text := config.Inner(architectures.TextConfigs)
		_ = yield("config.json", config) && yield("config.json ("+path+")", text)
	}
}

// FindSettings returns the settings in one of the [Scopes], or nil. MLX writes
// "quantization", and the same again as "quantization_config", a key that other
// programs write too.
func FindSettings(where string, scope jsonobj.Object) *Settings {
	for _, key := range []string{"quantization", "quantization_config"} {
		if s := NewSettings(where, scope.Object(key)); s != nil {
			return s
		}
	}
	return nil
}

// NewSettings returns the settings that an object holds: for the whole model, or at least
// for some modules. An object that is empty or names another method has none:
// nil.
func NewSettings(where string, o jsonobj.Object) *Settings {
	if o.Has("quant_method") && !namesMLX(o) || o.Raw("load_in_4bit").Kind() == 't' || o.Raw("load_in_8bit").Kind() == 't' || !holds(o) {
		return nil
	}
	// Parsed once, because every tensor may ask for them.
	return &Settings{Object: o, Where: where, usual: paramsOf(o, false), stacked: paramsOf(o, true)}
}

// keys of parameters, for the model and for a module.
const (
	keyBits  = "bits"
	keyGroup = "group_size"
)

// namesMLX reports whether an object has MLX's settings and names the method too, which mlx-lm itself
// does not.
func namesMLX(o jsonobj.Object) bool {
	_, bits := o.Raw(keyBits).Int()
	_, group := o.Raw(keyGroup).Int()
	return bits && group && strings.EqualFold(o.Raw("quant_method").Text(), "mlx")
}

// holds reports whether an object has parameters, or one of its members has.
func holds(o jsonobj.Object) bool {
	if o.Has(keyBits) || o.Has(keyGroup) {
		return true
	}
	for _, v := range o.All() {
		for _, key := range []string{keyBits, keyGroup} {
			if k := v.Member(key).Kind(); k != 0 && k != 'n' {
				return true
			}
		}
	}
	return false
}

// paramsOf reads an object. The object of a single module does not inherit from
// the model's: missing parameters have the defaults of the mode; stacked
// experts have the defaults of affine, whatever the mode.
func paramsOf(o jsonobj.Object, stacked bool) params {
	mode := Affine
	if o.Has("mode") {
		mode = o.Raw("mode").Text()
	}
	p := params{}
	var ok bool
	if p.Params, ok = Default(mode); !ok {
		p.err = fmt.Errorf("the mode %s is not known", tensorfs.Quote(mode))
		return p
	}
	if stacked {
		p.Params, _ = Default(Affine)
		p.Mode = mode
	}
	for _, f := range []struct {
		key string
		to  *int
	}{{keyBits, &p.Bits}, {keyGroup, &p.Group}} {
		if !o.Has(f.key) {
			continue
		}
		if *f.to, ok = o.Raw(f.key).Int(); !ok {
			p.err = fmt.Errorf("%s is not an integer", f.key)
			return p
		}
	}
	p.err = p.exist()
	return p
}

// Usual returns the parameters of modules without their own, as written, even if
// impossible; false if they are missing.
func (s *Settings) Usual() (Params, bool) {
	return s.usual.Params, s.Object.Has(keyBits) && s.Object.Has(keyGroup)
}

// Of returns the parameters of a module with scales. "Not quantised" is a contradiction
// then, and an error.
func (s *Settings) Of(module string, stacked bool) (Params, error) {
	own := s.Object.Raw(module)
	_, isUsual := s.Usual()
	p := s.usual
	switch k := own.Kind(); {
	case k == '{':
		p = paramsOf(own.Object(), stacked)
	case k == 'f':
		p.err = fmt.Errorf("%s marks it as not quantised, although it has scales", s.Where)
	case k != 't' && k != 0:
		p.err = fmt.Errorf("%s has %s for it, which is not a setting", s.Where, tensorfs.Quote(own.String()))
	case !isUsual:
		p.err = fmt.Errorf("%s names no bits and group_size for it", s.Where)
	case stacked:
		p = s.stacked
	}
	return p.Params, p.err
}

// Fit returns the parameters of a module as mlx-lm finds them: what is named for it, and for all others what
// follows from its shapes and columns, the length of its rows. Without columns the usual parameters count if
// they fit, and else the only ones that do.
func (s *Settings) Fit(module string, codes, scales, biases *tensorfs.Tensor, columns func() (int64, bool)) (Params, error) {
	p, err := s.Of(module, len(codes.Shape) > 2)
	if s.Object.Raw(module).Kind() != 0 {
		return p, err
	}
	isAffine := scales.DType != tensorfs.U8
	fitting := Fitting(codes, scales, func(p Params) bool { return (p.Mode == Affine) == isAffine && (biases != nil) == isAffine })
	if len(fitting) == 0 {
		return p, err
	}
	if n, ok := columns(); ok {
		for _, f := range fitting {
			if scales.Cols()*int64(f.Group) == n {
				return f, nil
			}
		}
		return p, err
	}
	if len(fitting) == 1 && (err != nil || !p.fit(codes, scales)) {
		return fitting[0], nil
	}
	return p, err
}
