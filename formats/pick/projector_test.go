package pick

import (
	"strings"
	"testing"
)

// TestProjector holds which file of a folder has the vision tower.
func TestProjector(t *testing.T) {
	for _, c := range []struct{ files, want, why string }{
		{"", "", ""},
		{"a.gguf README.md mmproj.txt", "", ""},
		{"a.gguf mmproj-a.gguf", "mmproj-a.gguf", ""},
		{"a.gguf A-MMPROJ-F16.GGUF", "A-MMPROJ-F16.GGUF", ""},
		{"mmproj-a-f16.gguf mmproj-a-bf16.gguf mmproj-a-f32.gguf", "mmproj-a-f32.gguf", ""},
		{"mmproj-F16.gguf mmproj-BF16.gguf", "mmproj-BF16.gguf", ""},
		{"a.mmproj.f16.gguf a-mmproj-bf16.gguf", "a-mmproj-bf16.gguf", ""},
		{"model.gguf model.mmproj template.jinja", "model.mmproj", ""},
		{"mmproj-F16.gguf mmproj-Q8_0.gguf", "", "2 vision towers: mmproj-F16.gguf, mmproj-Q8_0.gguf"},
		{"mmproj-a-f16.gguf mmproj-b-f16.gguf", "", "2 vision towers"},
		{"mmproj.gguf mmproj-f16.gguf", "", "2 vision towers"},
		{"mmproj-q8_0.gguf mmproj-q4_0.gguf", "", "2 vision towers"},
	} {
		got, err := Projector(strings.Fields(c.files))
		why := ""
		if err != nil {
			why = err.Error()
		}
		if got != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %q, %q; want %q, %q", c.files, got, why, c.want, c.why)
		}
	}
}
