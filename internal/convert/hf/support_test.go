package hf_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestSupportIsTrue compares the column mlx/ of the table of architectures with mlx/ of the golden
// model of each class.
func TestSupportIsTrue(t *testing.T) {
	says := map[string]architectures.Given{}
	for _, s := range architectures.Support() {
		says[s.Class] = s.Columns["mlx"]
	}
	dirs, err := filepath.Glob(data + "architectures/*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range dirs {
		dir := filepath.Dir(file)
		config := fields(t, onDisk(t, dir)["config.json"])
		classes, _ := config["architectures"].([]any)
		if len(classes) == 0 {
			continue
		}
		class := classes[0].(string)
		m, err := formats.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		made := convert.GGUF(m, convert.Options{})
		if made.Reason != "" {
			m.Close()
			continue
		}
		g, err := openGGUF(memory.New(map[string][]byte{"m.gguf": contents(t, made)["model.gguf"]}))
		if err != nil {
			t.Fatal(err)
		}
		reason := hf.MLX(g, convert.Options{}).Reason
		if strings.HasPrefix(class, "Qwen3For") && config["model_type"] == "qwen3" || strings.Contains(reason, "four times the width") || strings.Contains(reason, "clamps experts") {
			continue // the class of rerankers too; a toy of another width; one that only llama.cpp computes
		}
		if compared++; (reason == "") != says[class].Made || strings.HasSuffix(says[class].Reason, "model type ") {
			t.Errorf("%s (%s): made %v (%s), and the table says %v (%s)", filepath.Base(dir), class, reason == "", reason, says[class].Made, says[class].Reason)
		}
		g.Close()
		m.Close()
	}
	if compared < 100 {
		t.Errorf("%d models", compared)
	}
}
