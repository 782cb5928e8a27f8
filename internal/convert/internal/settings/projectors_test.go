package settings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestProjectorsByLayer refuses projectors between layers that a model does not have, and orders that would be guesses.
func TestProjectorsByLayer(t *testing.T) {
	for said, want := range map[string]string{
		`"deepstack_layer_map":[[-5,2],[-1,0]],"spatial_target_layers":[1,3]`: "[5 5 1 5]",
		`"deepstack_layer_map":[[-1,-4]]`:                                     "[5]",
		`"spatial_target_layers":[3],"spatial_vision_layer":-4`:               "[2]",
		`"spatial_target_layers":[3],"spatial_vision_layer":2`:                "counts layers of the tower from the first",
		`"deepstack_layer_map":[[-5,2],[1,0]]`:                                "counts layers of the tower from the first",
		`"deepstack_layer_map":[[-1,0],[-5,2]]`:                               "does not have the layers of the tower in their order",
		`"deepstack_layer_map":[[-5,2],[-1,2]]`:                               "the layer 2 of the language model has two projectors",
		`"deepstack_layer_map":[[-7,2]]`:                                      "between layers that its tower, of 6,",
		`"spatial_target_layers":[4]`:                                         "or its language model, of 4,",
		`"spatial_target_layers":[1e300]`:                                     "between layers",
		`"deepstack_layer_map":[[-1,2,3]]`:                                    "is not a pair of whole numbers",
		`"deepstack_layer_map":[[1.5,2]]`:                                     "is not a pair of whole numbers",
		`"deepstack_layer_map":7`:                                             "is not a list of at most 512 pairs",
		`"deepstack_layer_map":[` + strings.Repeat("[0,0],", 600) + `[0,0]]`:  "is not a list of at most 512 pairs",
		`"image_size":1`:                                                      "it has 0 projectors",
	} {
		text := fmt.Sprintf(`{"text_config":{"num_hidden_layers":4},"vision_config":{"num_hidden_layers":6},%s}`, said)
		m := &tensorfs.Model{}
		cfg, err := ParseFields("config.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		fields, err := towerFields(m, cfg, architectures.ProjectorOf(architectures.Class{Name: "Granite4VisionForConditionalGeneration"}, architectures.Vision))
		if err != nil {
			t.Fatal(err)
		}
		s := newModel(m, architectures.ToGGUF)
		s.cfg = fields
		e, err := architectures.ParseExpr("projectors(\"seen\")")
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(s.value(e))
		if err := s.err(); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", said[:min(60, len(said))], got, want)
		}
	}
}
