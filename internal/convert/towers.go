package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// towers are rows: the starts of names, canonical or in the model's files, of tensors
// that belong to no language model, and what they are for.
var towers = []struct{ name, source, tower string }{
	{"vision.", "", Vision}, {"resampler.", "", Vision}, {"", "vision_tower.", Vision}, {"", "model.vision_tower.", Vision}, {"", "vision_model.", Vision},
	{"audio.", "", Audio}, {"", "audio_tower.", Audio}, {"", "model.audio_tower.", Audio}, {"", "vision_encoder.", Vision}, {"", "audio_encoder.", Audio},
	{"", "model.layerwise_projectors.", projectorTower}, {"", "model.spatial_projectors.", projectorTower},
	{"", "speech_encoder.", Audio}, {"", "speech_embeddings.", Audio}, {"", "ln_speech.", projectorTower}, {"", "speech_audio_adapter.", projectorTower},
	{"", "model.visual.", Vision}, {"", "thinker.visual.", Vision}, {"", "thinker.audio_tower.", Audio}, {"", "talker.", Speech}, {"", "token2wav.", Speech}, {"", "code2wav.", Speech}, {"", "depthformer.", Speech}, {"", "depth_", Speech}, {"", "codebook_offsets", Speech}, {"", "audio_loss_weight", Speech},
	{"", "siglip2.", Vision}, {"", "model.vision_embedder.", Vision}, {"", "visual.", Vision}, {"", "vit.", Vision}, {"", "model.vqmodel.", Vision}, {"", "model.sam_model.", Vision}, {"", "model.vision_model.", Vision}, {"", "model.image_newline", Vision}, {"", "model.view_seperator", Vision}, {"", "model.generation_", Vision},
	{"", "model.aligner.", projectorTower}, {"", "merger.", projectorTower}, {"", "model.projector.", projectorTower}, {"", "model.merger.", projectorTower}, {"", "model.mm_projector.", projectorTower}, {"", "mm_projector.", projectorTower}, {"", "mlp_AR.", projectorTower}, {"", "patch_merge_mlp.", projectorTower}, {"", "vit_large_projector.", projectorTower},
	{"projector.", "", projectorTower}, {"", "multi_modal_projector.", projectorTower}, {"", "model.multi_modal_projector.", projectorTower},
}

// What a model has beside its language model.
const (
	Vision         = "vision"
	Audio          = "audio"
	Speech         = "speech"    // what makes sound
	projectorTower = "projector" // of either
)

// Towers counts the tensors of a model by what they are for, beside its language
// model.
type Towers map[string]int

// Add counts a tensor. It reports whether the tensor belongs to a tower.
func (t Towers) Add(x *tensorfs.Tensor) bool {
	tower := towerOf(x)
	if tower != "" {
		t[tower]++
	}
	return tower != ""
}

func towerOf(x *tensorfs.Tensor) string {
	for _, row := range towers {
		if strings.HasPrefix(x.Weight(), row.name) && strings.HasPrefix(x.Source, row.source) {
			return row.tower
		}
	}
	return ""
}

// LeaveOut notes that the files have none of the tensors that were counted, and why.
func (f *Files) LeaveOut(t Towers, why string) {
	if n := t[projectorTower]; n > 0 { // of a tower that stands elsewhere, or of none
		of := Vision
		if t[Vision] == 0 && t[Audio] > 0 {
			of = Audio
		}
		t[of] += n
	}
	for _, tower := range []string{Vision, Audio, Speech} {
		if t[tower] == 0 {
			continue
		}
		f.Leave(tower, fmt.Sprintf("left out (tensors: %d): %s", t[tower], why))
		f.Notes = append(f.Notes, fmt.Sprintf("this is only the language model, without %s: %s", tower, why))
	}
}

// beside counts the tensors that are in other files of the model than one.
func beside(m *tensorfs.Model, file string) (Towers, []string) {
	t := Towers{}
	var files []string
	for i := range m.Tensors {
		x := &m.Tensors[i]
		if e := tensorfs.Extents(x.Data); len(e) > 0 && e[0].File != file && t.Add(x) && !slices.Contains(files, e[0].File) {
			files = append(files, e[0].File)
		}
	}
	return t, files
}
