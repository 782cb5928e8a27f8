package formats

import (
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/foreign"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
)

// usual is the advice if nothing better is known.
const usual = "name a GGUF or safetensors file, a model directory or an Ollama manifest"

// refuse adds to the error for a path that cannot be opened what else the user
// may have meant. given is the path as the user wrote it.
func refuse(given string, err error) error {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !ok || e.Kind != fs.ErrNotExist {
		return err
	}
	switch {
	case url().MatchString(given):
		e.File, e.Problem, e.Advice = withoutSecrets(given), "it is a URL, and this program opens only models of this machine", `fetch the model with "hf download" or "ollama pull", then name it hf:ORG/NAME or ollama:NAME`
	case given == "-":
		e.File, e.Problem, e.Advice = given, "models are not read from a pipe", "write it to a file, and name that"
	case e.Advice == "check the path" && strings.HasPrefix(given, "~"):
		e.Advice = "the shell replaces ~ by the home directory only outside quotes"
	case e.Advice == "check the path" && strings.ContainsAny(given, "*?") && len(nearPaths(e.File)) == 0:
		e.Problem, e.Advice = "no file matches the pattern", "check the pattern"
	case e.Advice == "check the path" && windowsPath().MatchString(given):
		e.File, e.Problem = given, "it is a path of Windows"
		e.Advice = "in WSL write it as /mnt/" + strings.ToLower(given[:1]) + strings.ReplaceAll(given[2:], `\`, "/")
	case e.Advice == "check the path":
		names := nearPaths(e.File)
		if problem, instead, ok := Unread(given); ok && len(names) == 0 {
			e.File, e.Problem, e.Advice = given, problem, instead
			break
		}
		name := Meant(given)
		if strings.Contains(name, "://") { // a question mark would be taken for a part of it
			e.Advice = "write it as " + name
			break
		}
		if name != "" {
			names = append(names, name)
		} else if _, rest, ok := strings.Cut(given, ":"); ok && rest != "" { // a prefix that nothing has
			names = append(names, nearPaths(path.Join(path.Dir(e.File), rest))...)
		}
		if len(names) > 0 {
			e.Advice = near.Question(names)
		} else {
			e.Advice += " (models in a store are named ollama:NAME or hf:ORG/NAME)"
		}
	}
	return e
}

var (
	windowsPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]:[\\/]`) })
	// ollamaName matches what ollama pull takes: a name, and the size or the type that its tags begin with.
	ollamaName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z][a-z0-9.-]*:([0-9.]+[bm]|e[0-9]b|latest)([-.][-a-zA-Z0-9_.]*)?$`)
	})
)

// otherNames are prefixes that people write before names of models in stores, and the
// prefixes that such names have here.
var otherNames = []struct{ given, here string }{
	{"huggingface:", hub.Prefix}, {"hugging-face:", hub.Prefix}, {"hub:", hub.Prefix}, {"huggingface/", hub.Prefix},
	{"huggingface.co/", hub.Prefix}, {"hf.co/", hub.Prefix}, {"hf/", hub.Prefix},
	{"git@hf.co:", hub.Prefix}, {"git@huggingface.co:", hub.Prefix},
	{"ollama.com/library/", ollama.Prefix}, {"ollama.com/", ollama.Prefix}, {"ollama/", ollama.Prefix},
	{"registry.ollama.ai/library/", ollama.Prefix}, {"registry.ollama.ai/", ollama.Prefix},
	{"oci:", "oci://"}, {"docker://", "oci://"}, {"docker:", "oci://"}, {"s3:", "s3://"},
	{"gcs://", "gs://"}, {"gcs:", "gs://"}, {"gs:", "gs://"},
	{"azure:", "az://"}, {"abfss:", "az://"}, {"abfs:", "az://"}, {"wasbs:", "az://"}, {"wasb:", "az://"}, {"az:", "az://"},
	{"modelscope:", ModelScope}, {"modelscope/", ModelScope}, {"modelscope.cn/models/", ModelScope}, {"www.modelscope.cn/models/", ModelScope},
}

// unread are stores that people know, by what they write before the name of a model.
var unread = map[string]string{"kaggle": "Kaggle"}

// Unread returns why models of another store are not read, and what to name instead. ok is false if given does not
// begin as names of such a store do.
func Unread(given string) (problem, advice string, ok bool) {
	scheme, _, ok := strings.Cut(given, ":")
	store := unread[strings.ToLower(scheme)]
	if !ok || store == "" {
		return "", "", false
	}
	return "models are not read from " + store, "name its file on this machine, or the file's https:// address", true
}

// Meant guesses the name of a model in a store from a text that is not a path: "hf:a/b" for
// "a/b" and "huggingface:a/b", "hf:" for "hf", "oci://x/y" for "docker://x/y". It returns
// "" if nothing can be meant.
func Meant(given string) string {
	for _, s := range schemes {
		if given+":" == s.prefix {
			return s.prefix
		}
		if len(given) > len(s.prefix) && strings.EqualFold(given[:len(s.prefix)], s.prefix) {
			return s.prefix + given[len(s.prefix):]
		}
	}
	if path, ok := fromFileURL(given); ok {
		return path
	}
	for _, n := range otherNames {
		if len(given) > len(n.given) && strings.EqualFold(given[:len(n.given)], n.given) {
			rest := given[len(n.given):]
			if strings.HasSuffix(n.here, "://") {
				rest = strings.TrimLeft(rest, "/")
			}
			return n.here + rest
		}
	}
	if ollamaName().MatchString(given) {
		return ollama.Prefix + given
	}
	org, name, _ := strings.Cut(given, "/")
	n, err := hub.ParseName(given)
	if err != nil || name == "" || strings.HasPrefix(org, ".") || source.HasDir(org) || strings.Contains(name, "/") || pick.ParseSelect(path.Base(n.Repository)).File() || n.Select.File() {
		return "" // a path that is not there
	}
	return hub.Prefix + given
}

// fromFileURL returns the path of an address file:PATH, file:///PATH or file://localhost/PATH, where characters may be escaped.
func fromFileURL(address string) (path string, ok bool) {
	const scheme = "file:"
	if len(address) <= len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return "", false
	}
	path = address[len(scheme):]
	if rest, slashes := strings.CutPrefix(path, "//"); slashes {
		path = rest
		if local, ok := strings.CutPrefix(rest, "localhost/"); ok {
			path = "/" + local
		}
	}
	if plain, err := neturl.PathUnescape(path); err == nil {
		path = plain
	}
	return path, path != ""
}

// withoutSecrets leaves out of an address its user, password and query.
func withoutSecrets(address string) string {
	address, _, _ = strings.Cut(address, "?")
	scheme, rest, _ := strings.Cut(address, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// nearPaths returns paths that exist and are near one that does not: near its
// first part that is missing, in the directory that is there.
func nearPaths(missing string) []string {
	dir, name := path.Dir(missing), path.Base(missing)
	for !source.HasDir(dir) && path.Dir(dir) != dir {
		dir, name = path.Dir(dir), path.Base(dir)
	}
	src, err := source.Dir(dir, source.Anywhere)
	if err != nil {
		return nil
	}
	defer src.Close()
	entries, err := src.ReadDir(".")
	if err != nil {
		return nil
	}
	names := near.Names(name, allNames(entries), 3)
	for i := range names {
		names[i] = path.Join(dir, names[i])
	}
	return names
}

// allNames returns the names of entries.
func allNames(entries []fs.DirEntry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// maxParts bounds the directories that are looked into for what is wrong.
const maxParts = 64

// withBelow returns the names of a directory's files, and the paths of the files in the directories
// below it.
func withBelow(src source.FS, dir string, entries []fs.DirEntry) []string {
	files, looked := fileNames(entries), 0
	for _, e := range entries {
		if !e.IsDir() || looked == maxParts {
			continue
		}
		looked++
		below, _ := src.ReadDir(path.Join(dir, e.Name())) // a directory that cannot be read is not one of the parts
		for _, name := range fileNames(below) {
			files = append(files, e.Name()+"/"+name)
		}
	}
	return files
}

// several returns the error about a directory that has several models, or none.
func several(src source.FS, dir string, r *pick.Refusal) error {
	advice := usual
	if e := r.Example(false); e.Path != "" {
		advice = "name one, such as " + tensorfs.Printable(src.Location(path.Join(dir, e.Path)))
	}
	return tensorfs.Unsupported(src.Location(dir), r.Problem(false), advice)
}

// noModel returns an error about a directory that does not hold one model.
func noModel(src source.FS, dir string, entries []fs.DirEntry, r *pick.Refusal) error {
	if r.Several {
		return several(src, dir, r)
	}
	at := src.Location(dir)
	names := allNames(entries)
	first := func(prefix string) string {
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
		if i < 0 {
			return ""
		}
		return src.Location(path.Join(dir, names[i]))
	}
	if cached := first("models--"); cached != "" {
		return tensorfs.Unsupported(at, "it is a Hugging Face cache, not a model", "name one of its models as hf:ORG/NAME, or its folder, such as "+tensorfs.Printable(cached))
	}
	if slices.Contains(names, "manifests") && slices.Contains(names, "blobs") {
		return tensorfs.Unsupported(at, "it is an Ollama store", "name a model of it as ollama:NAME with OLLAMA_MODELS="+tensorfs.Printable(at)+", or its manifest")
	}
	if parts := pick.Nothing(withBelow(src, dir, entries)); parts.Example(false) != (pick.Select{}) {
		return several(src, dir, parts)
	}
	if problem, advice := foreign.Directory(path.Base(at), names); problem != "" {
		return tensorfs.Unsupported(at, problem, advice)
	}
	if len(entries) == 0 {
		return tensorfs.Unsupported(at, "it is an empty directory", usual)
	}
	return tensorfs.Unsupported(at, fmt.Sprintf("it has no safetensors and no GGUF file among its %d entries", len(entries)), usual)
}
