package convert

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// towerTables returns the tables of towers in testdata/audio and testdata/vision: the files by the models' directories.
func towerTables(t *testing.T) map[string]string {
	t.Helper()
	tables := map[string]string{}
	for _, dir := range []string{"audio", "vision"} {
		files, err := filepath.Glob(filepath.Join(testdata, dir, "expected", "*.mmproj.tsv"))
		if err != nil || len(files) < 9 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			tables[filepath.Join(testdata, dir, strings.TrimSuffix(filepath.Base(file), ".mmproj.tsv"))] = file
		}
	}
	return tables
}

// TestTowerTables compares every tensor and every key with the files of llama.cpp's converter, for models with audio
// towers and with vision towers. Numbers that the converter computes with PyTorch may be rounded otherwise:
// exp-rounded.tsv has the hashes of correctly rounded ones.
func TestTowerTables(t *testing.T) {
	rounded := map[string]string{}
	for _, r := range testwhole.Table(t, filepath.Join(testdata, "audio", "expected", "exp-rounded.tsv")) {
		rounded[r[0]+" "+r[1]] = r[2]
	}
	for dir, file := range towerTables(t) {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			m, err := formats.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			x, err := projected(t, m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, r := range testwhole.Table(t, file) {
				if hash, ok := rounded[name+".mmproj "+r[0]]; ok {
					r[4] = hash
				}
				want[r[0]] = strings.Join(r[1:5], " ")
			}
			got, _ := lines(t, x.list)
			testwhole.Same(t, got, want)
			sameKeys(t, x.keys(), strings.TrimSuffix(file, "tsv")+"meta.json")
		})
	}
}

// TestTowersBack converts the towers of a file back to a directory's tensors: the same names, shapes and numbers, but for the
// rounding of convolutions to F16.
func TestTowersBack(t *testing.T) {
	lossy := map[string]bool{"glm-asr": true, "granite-speech": true, "lfm2-audio": true, "qwen2.5-omni": true, "qwen3-omni": true, "ultravox": true}
	refused := map[string]string{"muse-glimmer": "is the sum of frames, which no GGUF file has"}
	for dir := range towerTables(t) {
		name := filepath.Base(dir)
		if lossy[name] {
			continue
		}
		m := testwhole.Open(t, dir)
		x, err := projected(t, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, want := map[string]string{}, map[string]string{}
		for _, p := range x.towers {
			var list []tensorfs.Tensor
			for _, s := range x.list {
				if len(x.towers) == 1 || settings.PartOf(s.Name) == p.about.Part {
					list = append(list, tensorfs.Tensor{Source: s.Name, DType: s.DType, Shape: s.Shape, Data: s.Data})
				}
			}
			own, err := p.tower.Model(list, layout.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			var made layout.List
			w := p.tower.Walk(own, layout.HF, p.about.Fact)
			w.Sink = &made
			err = w.Run()
			if why := refused[name]; why != "" && err != nil && strings.Contains(err.Error(), why) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range made.Tensors {
				got[p.tower.Published(made.Names[i].Name)] = numbersOf(t, &made.Tensors[i])
			}
		}
		for i := range m.Tensors {
			source := &m.Tensors[i]
			if towerOf(source) == "" || slices.ContainsFunc(x.towers, func(p *projector) bool { return p.tower.Drops(source.Source) }) {
				continue
			}
			if name == "qwen2-audio" && strings.Contains(source.Source, ".conv") && strings.HasSuffix(source.Source, ".weight") {
				if source, err = layout.Encoded(source, tensorfs.F16); err != nil {
					t.Fatal(err)
				}
			}
			as := source.Source
			for _, p := range x.towers {
				if p.tower.Knows(source.Source) {
					as = p.tower.Published(source.Source)
				}
			}
			want[as] = numbersOf(t, source)
		}
		if refused[name] != "" {
			want = map[string]string{}
		}
		t.Run(name, func(t *testing.T) { testwhole.Same(t, got, want) })
	}
}

// TestTowerNames holds that a directory and its own file of towers call tensors alike, except what the file has in another form.
func TestTowerNames(t *testing.T) {
	only := map[string]string{ // in the directory, or in the file
		"qwen2.5-omni": "audio.position_embedding.weight audio.boundaries.weight vision.patch_embedding.1.weight",
		"qwen3-omni": `audio.position_embedding.weight vision.patch_embedding.1.weight vision.deepstack.1.fc1.bias vision.deepstack.1.fc1.weight
			vision.deepstack.1.fc2.bias vision.deepstack.1.fc2.weight vision.deepstack.1.norm.bias vision.deepstack.1.norm.weight
			vision.deepstack.2.fc1.bias vision.deepstack.2.fc1.weight vision.deepstack.2.fc2.bias vision.deepstack.2.fc2.weight
			vision.deepstack.2.norm.bias vision.deepstack.2.norm.weight`,
		"glm-asr":    "audio.boundaries.weight vision.boi_embedding.weight vision.eoi_embedding.weight",
		"minimax-m3": "vision.patch_embedding.1.weight",
		"glm5-next":  "vision.patch_embedding.1.weight",
	}
	for dir := range towerTables(t) {
		name := filepath.Base(dir)
		m := testwhole.Open(t, dir)
		x, err := projected(t, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sides := map[string]int{}
		for i := range m.Tensors {
			source := &m.Tensors[i]
			isDropped := slices.ContainsFunc(x.towers, func(p *projector) bool { return p.tower.Drops(source.Source) })
			if slices.Contains([]string{Vision, Audio, projectorTower}, towerOf(source)) && (!isDropped || filepath.Base(filepath.Dir(dir)) == "audio") {
				sides[source.Name]++
			}
		}
		var list []names.Source
		for _, s := range x.list {
			list = append(list, names.Source{Name: s.Name, Shape: s.Shape})
		}
		for i, r := range names.Map(names.GGUF, "clip", list) {
			if !r.Mapped {
				t.Errorf("%s: %s has no canonical name: %s", name, list[i].Name, r.Reason)
			}
			sides[r.Name]--
		}
		for tensor, n := range sides {
			if name == "granite4-vision" && regexp.MustCompile(`^projector\.(layers|layerwise|spatial)\.`).MatchString(tensor) {
				continue // the two sides number projectors otherwise
			}
			inParts := strings.Contains(tensor, ".conv.batch_norm.") || strings.Contains(tensor, ".conv.norm.") || regexp.MustCompile(`attention\.(k|v|kv)\.weight$`).MatchString(tensor)
			if n != 0 && !slices.Contains(strings.Fields(only[name]), tensor) && !(inParts && (name == "granite-speech" || name == "lfm2-audio")) {
				t.Errorf("%s: %s is only on one side", name, tensor)
			}
		}
	}
}

// TestFeatureLayers holds the key of the layers whose results go to the projector: the converter writes it as an array of 32-bit integers.
func TestFeatureLayers(t *testing.T) {
	m := copied(t, "../audio/granite-speech", map[string]any{
		"config.json:architectures": []string{"GraniteSpeechPlusForConditionalGeneration"}, "config.json:model_type": "granite_speech_plus",
		"config.json:encoder_config.cat_hidden_layers": []int{0, 1},
	}, nil)
	x, err := projected(t, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := settings.ByKey(x.keys())["clip.audio.feature_layer"]; !reflect.DeepEqual(got, []int32{0, 1}) {
		t.Errorf("%T %v", got, got)
	}
}
