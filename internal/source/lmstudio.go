package source

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// LMStudioModels returns where LM Studio keeps its models: the folder that its settings name,
// else models/ in its home, which is the directory that ~/.lmstudio-home-pointer names,
// ~/.lmstudio, or that of older versions, ~/.cache/lm-studio, if only that is there.
func LMStudioModels() (string, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where are LM Studio's models? %w", err)
	}
	const most = 1 << 20
	home := filepath.Join(user, ".lmstudio")
	if old := filepath.Join(user, ".cache", "lm-studio"); !HasDir(home) && HasDir(old) {
		home = old
	}
	if b, err := ReadRegular(filepath.Join(user, ".lmstudio-home-pointer"), most); err == nil {
		if named := strings.TrimSpace(string(b)); filepath.IsAbs(named) && HasDir(named) {
			home = named
		}
	}
	var settings struct {
		Folder string `json:"downloadsFolder"`
	}
	if b, err := ReadRegular(filepath.Join(home, "settings.json"), most); err == nil && json.Unmarshal(b, &settings) == nil && filepath.IsAbs(settings.Folder) {
		return settings.Folder, nil
	}
	return filepath.Join(home, "models"), nil
}
