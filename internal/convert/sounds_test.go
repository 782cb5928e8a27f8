package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestAudioTowers compares every tensor and every key with the files of llama.cpp's converter, for models with audio
// towers. Numbers that the converter computes with PyTorch may be rounded otherwise: exp-rounded.tsv has the hashes of
// correctly rounded ones.
func TestAudioTowers(t *testing.T) {
	expected := filepath.Join(testdata, "audio", "expected")
	files, err := filepath.Glob(filepath.Join(expected, "*.mmproj.tsv"))
	if err != nil || len(files) != 9 {
		t.Fatal(files, err)
	}
	rounded := map[string]string{}
	for _, r := range testwhole.Table(t, filepath.Join(expected, "exp-rounded.tsv")) {
		rounded[r[0]+" "+r[1]] = r[2]
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mmproj.tsv")
		t.Run(name, func(t *testing.T) {
			m, err := formats.Open(filepath.Join(testdata, "audio", name))
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
