package convert

import (
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestProjectorsBack converts the tensors of a projector's file back to a directory's tensors: the
// same names, shapes and numbers.
func TestProjectorsBack(t *testing.T) {
	eachProjector(t, func(t *testing.T, _ string, x projection) {
		got, want := map[string]string{}, map[string]string{}
		for _, p := range x.towers {
			var tensors []tensorfs.Tensor
			for _, s := range x.list {
				if len(x.towers) == 1 || settings.PartOf(s.Name) == p.about.Part {
					tensors = append(tensors, tensorfs.Tensor{Source: s.Name, DType: s.DType, Shape: s.Shape, Data: s.Data})
				}
			}
			own, err := p.tower.Model(tensors, layout.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			var made layout.List
			w := p.tower.Walk(own, layout.HF, p.about.Fact)
			w.Sink = &made
			err = w.Run()
			if p.about.Settings.Name == "hunyuanvl" {
				if err == nil || !strings.Contains(err.Error(), "a row before the positions, which no GGUF file has") {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range made.Tensors {
				got[made.Names[i].Name] = numbersOf(t, &made.Tensors[i])
			}
		}
		for i := range x.m.Tensors {
			source := &x.m.Tensors[i]
			isLast := x.about.Settings.Name == "phi4" && (strings.Contains(source.Source, ".layers.2.") || strings.Contains(source.Source, ".post_layernorm."))
			if towerOf(source) != "" && !isLast { // of whose result the class makes nothing
				named := *source
				if strings.HasSuffix(t.Name(), "/glm5v") { // its release spells them otherwise
					named.Source = strings.NewReplacer("mm_projector.linear_1", "mm_projector.proj.0", "mm_projector.linear_2", "mm_projector.proj.2").Replace(source.Source)
				}
				want[named.Source] = numbersOf(t, &named)
			}
		}
		testwhole.Same(t, got, want)
	})
}

// sections are an array of metadata.
type sections []any

func (s sections) Len() int              { return len(s) }
func (s sections) Values() iter.Seq[any] { return slices.Values(s) }

// TestProjectorConfigs makes the fields about the tower of config.json again of its file.
func TestProjectorConfigs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "architectures", "expected", "*.vl.hf.config.json"))
	if err != nil || len(files) != 11 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".vl.hf.config.json")
		x, err := projected(t, opened(t, name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := gguf.Compose(x.keys(), x.list)
		if err != nil {
			t.Fatal(err)
		}
		tower, err := formats.OpenFS(fstest.MapFS{"m.gguf": {Data: bytesOf(t, d)}}, "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer tower.Close()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		works := false
		for language, class := range x.about.Beside { // several language models may have the tower
			if !strings.HasPrefix(class, want["architectures"].([]any)[0].(string)+":") {
				continue
			}
			text := &tensorfs.Model{Metadata: []tensorfs.Meta{{Key: "general.architecture", Value: language}, {Key: language + ".embedding_length", Value: x.about.Fact("projection_dim")},
				{Key: language + ".rope.dimension_sections", Value: sections{int32(2), int32(3), int32(3), int32(0)}}}}
			about, err := settings.FromProjector(architectures.Vision, text, tower)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			of, err := layout.TowerOf(about.Projector, about.Fact)
			if err != nil {
				t.Fatal(err)
			}
			own, err := of.Model(tower.Tensors, layout.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			made, _, err := settings.ProjectorConfig([]byte(`{"rope_scaling":1}`), nil, settings.Found{Projector: about, Tensor: layout.TensorsOf(own).Find})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var got map[string]any
			if err := json.Unmarshal(made, &got); err != nil {
				t.Fatal(err)
			}
			works = true
			delete(got, "text_config")
			for field, v := range got {
				if !reflect.DeepEqual(v, want[field]) {
					t.Errorf("%s: %s is %v, want %v", name, field, v, want[field])
				}
			}
		}
		if !works {
			t.Errorf("%s: no directory has the tower", name)
		}
	}
}

// numbersOf is the shape of a tensor and the hash of its numbers.
func numbersOf(t *testing.T, x *tensorfs.Tensor) string {
	t.Helper()
	f, err := layout.Encoded(x, tensorfs.F32)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, gguf.Stored{Name: x.Source, DType: f.DType, Shape: f.Shape, Data: f.Data})
}
