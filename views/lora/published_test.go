package lora_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// TestPublished applies adapters with the configs of published ones, or refuses them for a true
// reason.
func TestPublished(t *testing.T) {
	const rank = 4
	f, err := os.Open(filepath.Join(testwhole.Data(t), "published/adapters.jsonl"))
	must(t, err)
	defer f.Close()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); rows++ {
		var row struct {
			Source, Refused, Like, Prefix string
			Config                        map[string]any
			Names                         []string
			Modules                       int
		}
		must(t, json.Unmarshal(lines.Bytes(), &row))
		named := func(key string) (list []string) {
			all, _ := row.Config[key].([]any)
			for _, x := range all {
				list = append(list, x.(string))
			}
			return list
		}
		row.Config["r"] = rank // of a toy
		config, err := json.Marshal(row.Config)
		must(t, err)
		m := testwhole.Open(t, filepath.Join(testwhole.Data(t), row.Like))
		var list []safetensors.Stored
		for i := range m.Tensors {
			x := &m.Tensors[i]
			module, ok := strings.CutSuffix(x.Source, ".weight")
			if !ok || !slices.Contains(named("target_modules"), module[strings.LastIndexByte(module, '.')+1:]) {
				continue
			}
			out, in := x.Shape[0], x.Shape[1]
			if row.Config["fan_in_fan_out"] == true {
				out, in = in, out
			}
			list = append(list, pairOf(row.Prefix+module, out, in, rank)...)
		}
		for _, name := range row.Names {
			list = append(list, pairOf(name, 64, 64, rank)...)
		}
		for _, name := range named("modules_to_save")[:min(1, len(named("modules_to_save")))] {
			list = append(list, tensor(pre+name+".weight", tensorfs.F32, 2, 64), tensor(pre+name+".bias", tensorfs.F32, 2))
		}
		err = lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, string(config), list...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
		changed := 0
		for i := range m.Tensors {
			if m.Tensors[i].Change != nil {
				changed++
			}
		}
		switch {
		case row.Refused != "" && (err == nil || !strings.Contains(err.Error(), row.Refused) || strings.Contains(err.Error(), "fetch it again")):
			t.Errorf("%s: %v, want %q", row.Source, err, row.Refused)
		case row.Refused == "" && (err != nil || changed != row.Modules):
			t.Errorf("%s: %d tensors are changed, error %v", row.Source, changed, err)
		}
	}
	if rows < 10 {
		t.Errorf("%d adapters", rows)
	}
}
