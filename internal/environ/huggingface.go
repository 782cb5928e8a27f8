package environ

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// HuggingFaceCache returns the directory of the Hugging Face cache, as huggingface_hub finds it: HF_HUB_CACHE,
// the older HUGGINGFACE_HUB_CACHE, or hub in the directory of Hugging Face's programs.
func HuggingFaceCache(env Env) (string, error) {
	return huggingFacePath(env, "hub", env("HF_HUB_CACHE"), env("HUGGINGFACE_HUB_CACHE"))
}

// huggingFacePath returns the first path that is set, else a name in HF_HOME, which is huggingface in
// XDG_CACHE_HOME or ~/.cache unless it is set. A path in HF_HOME is expanded twice there.
func huggingFacePath(env Env, name string, set ...string) (path string, err error) {
	if path = cmp.Or(set...); path == "" {
		home := env("HF_HOME")
		if home == "" {
			home = filepath.Join(cmp.Or(env("XDG_CACHE_HOME"), "~/.cache"), "huggingface")
		}
		home, err = Expand(home, env)
		path = filepath.Join(home, name)
	}
	if err == nil {
		path, err = Expand(path, env)
	}
	if err != nil {
		return "", fmt.Errorf("where are the files of Hugging Face's programs? %w, or HF_HOME", err)
	}
	return path, nil
}

// HuggingFaceOffline returns the variable that forbids Hugging Face's programs to ask the Hub, "" if none does.
// Of the two the first that is set decides.
func HuggingFaceOffline(env Env) string {
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		if value := env(name); value != "" {
			if IsTrue(value) {
				return name
			}
			return ""
		}
	}
	return ""
}

// IsTrue reports whether Hugging Face's programs take the value of a variable for yes.
func IsTrue(value string) bool {
	switch strings.ToUpper(value) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// maxToken bounds a token, which has some forty characters.
const maxToken = 4096

// HuggingFaceToken returns the token for the Hub, "" for none: HF_TOKEN, the older HUGGING_FACE_HUB_TOKEN, or the content
// of the file that 'hf auth login' and 'hf auth switch' write. HF_HUB_DISABLE_IMPLICIT_TOKEN means none. It is
// never to be shown.
func HuggingFaceToken(env Env) (string, error) {
	if IsTrue(env("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return "", nil
	}
	name := "HF_TOKEN"
	if env(name) == "" {
		name = "HUGGING_FACE_HUB_TOKEN"
	}
	text := cleanToken(env(name))
	if text == "" {
		path, err := huggingFacePath(env, "token", env("HF_TOKEN_PATH"))
		if err != nil {
			return "", nil // without a home directory there is no file
		}
		b, err := source.ReadRegular(path, maxToken+1)
		if err != nil && env("HF_TOKEN_PATH") != "" && !errors.Is(err, fs.ErrNotExist) {
			return "", tensorfs.PathError(path, err)
		}
		name, text = "the file with the token", cleanToken(string(b))
	}
	// What a header may hold: an error of net/http about another one might quote it.
	if len(text) > maxToken || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", tensorfs.Unsupported(name, "it contains characters that a token cannot have, such as blanks", "log in again with 'hf auth login'")
	}
	return text, nil
}

// cleanToken returns a token without line ends and without blanks around it.
func cleanToken(text string) string {
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(text))
}
