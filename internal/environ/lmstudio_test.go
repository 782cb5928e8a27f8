package environ

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// LM Studio's folder is looked for where LM Studio does.
func TestLMStudioModels(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	is := func(want string) {
		t.Helper()
		if got, err := LMStudioModels(); err != nil || got != filepath.Join(home, want) {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	makes := func(name, text string) {
		t.Helper()
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	is(".lmstudio/models")
	makes(".cache/lm-studio/x", "")
	is(".cache/lm-studio/models")
	makes(".lmstudio/x", "")
	is(".lmstudio/models")
	makes(".lmstudio-home-pointer", filepath.Join(home, "gone")+"\n")
	is(".lmstudio/models")
	makes("other/settings.json", "not JSON")
	makes(".lmstudio-home-pointer", filepath.Join(home, "other")+"\n")
	is("other/models")
	makes("other/settings.json", `{"downloadsFolder":""}`)
	is("other/models")
	makes("other/settings.json", `{"downloadsFolder":"`+filepath.Join(home, "big")+`","x":1}`)
	is("big")
}
