package environ

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs/internal/source"
)

// LMStudio begins the names of models in LM Studio's folder. On its own it names all of
// them.
const LMStudio = "lmstudio:"

// LMStudioModels returns where LM Studio keeps its models: the folder that its settings
// name, else models/ in its home. The home is the directory that ~/.lmstudio-home-pointer
// names, ~/.lmstudio, or the directory of older versions, ~/.cache/lm-studio, if only that
// exists.
func LMStudioModels() (string, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where are LM Studio's models? %w", err)
	}
	const most = 1 << 20
	home := filepath.Join(user, ".lmstudio")
	if old := filepath.Join(user, ".cache", "lm-studio"); !source.HasDir(home) && source.HasDir(old) {
		home = old
	}
	if b, err := source.ReadRegular(filepath.Join(user, ".lmstudio-home-pointer"), most); err == nil {
		if named := strings.TrimSpace(string(b)); filepath.IsAbs(named) && source.HasDir(named) {
			home = named
		}
	}
	var settings struct {
		Folder string `json:"downloadsFolder"`
	}
	if b, err := source.ReadRegular(filepath.Join(home, "settings.json"), most); err == nil && json.Unmarshal(b, &settings) == nil && filepath.IsAbs(settings.Folder) {
		return settings.Folder, nil
	}
	return filepath.Join(home, "models"), nil
}

// LMStudioNames returns the names of the models' directories, PUBLISHER/NAME. What cannot be read
// has no models for us.
func LMStudioNames() (names []string) {
	dir, err := LMStudioModels()
	if err != nil {
		return nil
	}
	publishers, _ := os.ReadDir(dir)
	for _, p := range publishers {
		models, _ := os.ReadDir(filepath.Join(dir, p.Name()))
		for _, m := range models {
			if m.IsDir() || m.Type() == fs.ModeSymlink {
				names = append(names, p.Name()+"/"+m.Name())
			}
		}
	}
	return names
}
