package hub

import (
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Prefix is what names of the hub begin with.
const Prefix = "hf:"

// Name is a model's name. Its parts may occur in paths.
type Name struct {
	Repository string // ORG/NAME, or only NAME
	Revision   string // a branch, a tag, refs/pr/N or a commit; "" for the usual one
	Select     pick.Select
}

// ParseName parses what follows [Prefix]:
//
//	[//]ORG/NAME[@REVISION][:SELECT]
//	[//]ORG/NAME/PATH
//
// A revision may have slashes, also written as %2F. A path may follow it too, as
// in ORG/NAME@main/PATH: what is in the cache tells the two apart, see [Find].
func ParseName(s string) (Name, error) {
	text := strings.TrimPrefix(s, "//")
	end := strings.IndexAny(text, "@:")
	if end < 0 {
		end = len(text)
	}
	org, rest, _ := strings.Cut(text[:end], "/")
	name, _, hasPath := strings.Cut(rest, "/")
	n := Name{Repository: text[:end]}
	selects := false
	if hasPath {
		n.Repository = org + "/" + name
		n.Select.Path = text[len(n.Repository)+1:]
		selects = n.Select.Path != "" // ORG/NAME/ is ORG/NAME
	} else {
		rest, sel := text[end:], ""
		if after, ok := strings.CutPrefix(rest, "@"); ok {
			n.Revision, sel, selects = strings.Cut(after, ":")
			n.Revision = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(n.Revision)
			if !plainPath(n.Revision) {
				return Name{}, nameError(s)
			}
		} else {
			_, sel, selects = strings.Cut(rest, ":")
		}
		if selects {
			n.Select = pick.ParseSelect(sel)
		}
	}
	n.Select.Path = strings.TrimSuffix(n.Select.Path, "/")
	switch {
	case org == "datasets" || org == "spaces":
		return Name{}, &tensorfs.FormatError{File: Prefix + s, Offset: -1, Problem: "it is the name of one of the hub's " + org + ", not of a model", Advice: "name a model as hf:ORG/NAME"}
	case org == "models" && hasPath: // as in addresses of the hub's interface; no organisation has that name
		return Name{}, &tensorfs.FormatError{File: Prefix + s, Offset: -1, Problem: "names of models do not begin with models/", Advice: "write it as " + Prefix + text[len("models/"):]}
	case !plainPath(n.Repository) || strings.Contains(n.Repository, "--"),
		selects && n.Select.Word == "" && !plainPath(n.Select.Path), n.Select.Word != "" && !tensorfs.ValidName(n.Select.Word):
		return Name{}, nameError(s)
	}
	return n, nil
}

func nameError(s string) error {
	if s == "" {
		return &tensorfs.FormatError{File: strings.TrimSuffix(Prefix, ":"), Offset: -1, Problem: "it names all models of the cache, not one", Advice: "tensorfs list " + Prefix + " shows their names"}
	}
	e := &tensorfs.FormatError{File: Prefix + s, Offset: -1, Problem: "the name is not of the form ORG/NAME, ORG/NAME/FILE or ORG/NAME@REVISION:WORD", Advice: "write it as the hub does, or put ./ before it to name a path"}
	if name := strings.TrimLeft(s, "/"); name != s {
		if dir := path.Dir(s); dir != "/" && source.HasDir(dir) {
			e.Advice = "a path has no " + Prefix + " before it: " + tensorfs.Printable(s)
		} else if n, err := ParseName(name); err == nil {
			e.Advice = "write it as " + n.String()
		}
	}
	return e
}

// plainPath reports whether s is a path that leads only downwards.
func plainPath(s string) bool {
	for p := range strings.SplitSeq(s, "/") {
		if !tensorfs.ValidName(p) {
			return false
		}
	}
	return true
}

// String returns a text that [ParseName] makes the name from, with [Prefix].
func (n Name) String() string {
	s := Prefix + n.Repository
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	switch selected := n.Select.Path; {
	case n.Select.Word != "":
		return s + ":" + n.Select.Word
	case selected == "":
		return s
	case n.Revision == "" && strings.Contains(n.Repository, "/"):
		return s + "/" + selected
	case pick.ParseSelect(selected).Path == "": // not to be taken for a word
		return s + ":" + selected + "/"
	default:
		return s + ":" + selected
	}
}

// download returns the command that downloads the model, for a message.
func (n Name) download() string {
	s := "hf download " + shellWord(n.Repository)
	switch {
	case n.Select.Word != "":
		s += " --include " + shellWord("*"+n.Select.Word+"*")
	case n.Select.Path != "" && n.Select.File():
		s += " " + shellWord(n.Select.Path)
	case n.Select.Path != "":
		s += " --include " + shellWord(n.Select.Path+"/*")
	}
	if n.Revision != "" {
		s += " --revision " + shellWord(n.Revision)
	}
	return `"` + tensorfs.OneLine(s) + `"`
}

// shellWord quotes a word for a shell, if that is needed.
func shellWord(s string) string {
	plain := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("-_./@+=,", c)
	}
	if strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
