package deps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// namesInGo are the names of the descriptions that Go may have, by file, with the reason.
var namesInGo = map[string]struct{ names, why string }{
	"formats/tokenizer/vocabulary.go":      {"gpt2 llama gemma4 bert plamo2", "kinds of vocabularies, each with its own code"},
	"formats/tokenizer/files.go":           {"phi3", "a part of models' names by which llama.cpp knows them, whatever their architecture is"},
	"formats/gguf/shared.go":               {"bitnet", "files of bitnet.cpp, a program whose numbers of types are its own"},
	"formats/hf/schemes.go":                {"bitnet", "a quant_method of config.json"},
	"internal/convert/hf/mlx_packed.go":    {"bitnet", "a quant_method of config.json"},
	"internal/cache/verify.go":             {"git", "a kind of digest"},
	"scripts/packaging/_release/source.go": {"git", "a command"},
}

// TestNamesStayInDescriptions: Go has no name of an architecture, of a class or of a model type. What differs
// between them is text: a block of formats/architectures/architectures.txt, or a table beside the package that
// knows the fact.
func TestNamesStayInDescriptions(t *testing.T) {
	names := describedNames(t)
	if len(names) < 500 || !names["LlamaForCausalLM"] || !names["qwen3_vl_moe"] || !names["gemma-embedding"] {
		t.Fatalf("%d names", len(names))
	}
	used := map[string]bool{}
	for _, file := range goFiles(t, "../..") {
		name := filepath.ToSlash(strings.TrimPrefix(file, "../../"))
		allowed := strings.Fields(namesInGo[name].names)
		for _, found := range namesIn(t, file, names) {
			if used[name+" "+found] = true; !slices.Contains(allowed, found) {
				t.Errorf("%s: %q is a name of a description, and belongs into a text", name, found)
			}
		}
	}
	for file, x := range namesInGo {
		for _, name := range strings.Fields(x.names) {
			if !used[file+" "+name] {
				t.Errorf("%s does not have %q", file, name)
			}
		}
	}
}

// goFiles returns the files of Go below a directory, without tests and what only tests import.
func goFiles(t *testing.T, root string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		switch base := path.Base(filepath.ToSlash(name)); {
		case err != nil:
			return err
		case d.IsDir() && (base == "testdata" || base == "testing" || strings.HasPrefix(base, ".") && name != root):
			return filepath.SkipDir
		case strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go"):
			list = append(list, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// namesIn returns the texts of a file that consist of names.
func namesIn(t *testing.T, file string, names map[string]bool) (found []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return true
		}
		text, _ := strconv.Unquote(l.Value)
		words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,\n\t", r) })
		if !slices.ContainsFunc(words, func(w string) bool { return !names[w] }) {
			found = append(found, words...)
		}
		return true
	})
	return found
}

// describedNames returns the names of architectures, classes and model types that the descriptions have.
func describedNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range []string{"architectures.txt", "projectors.txt", "sounds.txt", "names.txt"} {
		text, err := os.ReadFile(filepath.Join("../../formats/architectures", file))
		if err != nil {
			t.Fatal(err)
		}
		block := ""
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			f := strings.Fields(line)
			switch {
			case len(f) < 2:
			case f[0] == "arch" && line[0] == 'a':
				block = f[1]
			case file == "names.txt" && (f[0] == "class" || f[0] == "type"):
				names[f[1]], names[f[2]] = true, true
			case classWord.MatchString(line):
				names[block] = names[block] || file == "architectures.txt" // projectors have names of their own
				for _, class := range f[1:] {
					for name := range strings.SplitSeq(class, ":") {
						names[name] = true
					}
				}
			}
		}
	}
	for name := range names {
		if len(name) < 3 { // "-" of names.txt, and t5, a kind of vocabulary
			delete(names, name)
		}
	}
	return names
}

var classWord = regexp.MustCompile(`^  (class|writes|gguf) `)
