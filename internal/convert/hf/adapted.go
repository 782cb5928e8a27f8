package hf

import (
	"encoding/json"
	"slices"

	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// quantKeys are the keys of config.json about how weights are quantised.
var quantKeys = map[string]bool{"quantization": true, "quantization_config": true, "compression_config": true}

// adapted returns a stored config.json for tensors in another encoding: with their
// torch_dtype, and without its keys about quantisation or, in mlx/, with the ones that
// apply there. All other fields stay unchanged and in order.
func adapted(stored []byte, f settings.Given, mlx bool) ([]byte, error) {
	o, err := jsonobj.ParseFile(configName, stored)
	if err != nil {
		return nil, err
	}
	list := replaced(o, f.Torch, true)
	if f.Experts && !mlx {
		list = list.With("quantization_config", settings.MXFP4)
	}
	if mlx && f.Quantization != nil {
		q, err := jsonobj.Parse(f.Quantization)
		if err != nil {
			return nil, err
		}
		list = append(list, settings.Members(q)...)
	}
	return list.Lines(!json.Valid(stored)), nil
}

// replaced returns the members of an object, and of the language model in it, without keys
// about quantisation and with a type of numbers: at the place of the old one, or at the end
// if always is set; "" leaves the old one.
func replaced(o jsonobj.Object, torch string, always bool) settings.Object {
	list := make(settings.Object, 0, o.Len()+1)
	text, _ := o.Inner(architectures.TextConfigs)
	said := false
	for name, raw := range o.All() {
		switch {
		case quantKeys[name], slices.Contains(architectures.FloatTypes, name) && said:
		case slices.Contains(architectures.FloatTypes, name) && torch != "":
			list, said = list.With("torch_dtype", torch), true
		case name == text && always && affected(raw.Object()):
			list = list.With(name, replaced(raw.Object(), torch, false))
		default:
			list = list.With(name, raw)
		}
	}
	if always && !said && torch != "" {
		list = list.With("torch_dtype", torch)
	}
	return list
}

// affected reports whether an object has any of the members that are replaced.
func affected(o jsonobj.Object) bool {
	for name := range o.All() {
		if quantKeys[name] || slices.Contains(architectures.FloatTypes, name) {
			return true
		}
	}
	return false
}
