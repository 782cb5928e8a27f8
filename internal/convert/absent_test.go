package convert

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestAbsentFields removes each field that the class of a golden model has a default for: the keys
// are the same as with the default in config.json, as for transformers and the converter.
func TestAbsentFields(t *testing.T) {
	types := readFields(t)
	tried := 0
	eachGolden(t, func(name string, m *tensorfs.Model, config map[string]any) {
		text, _ := config["text_config"].(map[string]any)
		if top, _ := config["model_type"].(string); types[top] == nil {
			return // the model's own code has the defaults
		}
		stated, _, statedErr := madeOf(t, m, config)
		for _, o := range []map[string]any{config, text} {
			of, _ := o["model_type"].(string)
			for field, value := range types[of] {
				was, has := o[field]
				if !has || value == "auto" || o["text_config"] == nil && config[field] != nil && text[field] != nil || spelledTwice(o, text, field) {
					continue
				}
				tried++
				want, wantErr := stated, statedErr
				if !reflect.DeepEqual(was, value) {
					o[field] = value
					want, _, wantErr = madeOf(t, m, config)
				}
				delete(o, field)
				got, _, err := madeOf(t, m, config)
				o[field] = was
				switch {
				case wantErr != nil && err == nil && slices.Contains([]string{"head_dim", "num_key_value_heads", "hidden_size"}, field): // the tensors say it
				case (err == nil) != (wantErr == nil):
					t.Errorf("%s without %s: %v, with %v: %v", name, field, err, value, wantErr)
				case err == nil:
					for key, v := range want {
						if fmt.Sprint(got[key]) != fmt.Sprint(v) {
							t.Errorf("%s without %s: %s is %v, with %v %v", name, field, key, got[key], value, v)
						}
					}
					for key := range maps.Keys(got) {
						if _, ok := want[key]; !ok {
							t.Errorf("%s without %s: %s is %v, with %v there is none", name, field, key, got[key], value)
						}
					}
				}
			}
		}
	})
	if tried < 1500 {
		t.Errorf("%d fields", tried)
	}
}

// spelledTwice reports whether another field has the same meaning.
func spelledTwice(o, text map[string]any, field string) bool {
	if _, inText := text[field]; inText && o["text_config"] != nil {
		return true
	}
	f := architectures.FactOfField(field)
	return f != nil && slices.ContainsFunc(f.Fields, func(other string) bool { return other != field && o[other] != nil })
}

// TestDefaultsOfClasses compares the defaults in descriptions with the defaults of transformers'
// classes.
func TestDefaultsOfClasses(t *testing.T) {
	types := readFields(t)
	compared := 0
	for _, a := range architectures.AllSettings() {
		for i := range a.Keys {
			item := &a.Keys[i]
			if item.Always || item.Value == nil || item.Value.Literal == nil {
				continue
			}
			fields := item.Fact.Fields
			if item.Field != "" {
				fields = []string{item.Field}
			}
			for _, class := range a.Classes {
				for _, field := range fields {
					of := types[class.ModelType]
					if text := types[class.ModelType+"_text"]; text != nil {
						of = text
					}
					if want := of[strings.TrimPrefix(field, "rope.")]; want != nil {
						if compared++; fmt.Sprint(want) != fmt.Sprint(item.Value.Literal) {
							t.Errorf("%s: %s is %v without %s, and the class %s has %v", a.Name, item.Name, item.Value.Literal, field, class.ModelType, want)
						}
					}
				}
			}
		}
	}
	if compared < 30 {
		t.Errorf("%d defaults", compared)
	}
}
