// Package foreign recognises files that are not models: other formats, compressed files,
// and what a failed download left. It names them, with what to do, in one clause each.
package foreign

import (
	"bytes"
	"encoding/binary"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// headSize is how much of a file's beginning is looked at.
const headSize = 512

// What to do.
const (
	again   = "fetch the file again"
	convert = "save the model as safetensors first, with transformers' save_pretrained(DIR, safe_serialization=True)"
	arrays  = "save its arrays as safetensors first, with safetensors.numpy.save_file"
	another = "fetch the model as safetensors or GGUF, which tensorfs reads"
	members = "unpack it first"
)

// contents are files that their first bytes identify, tried in order.
var contents = []struct {
	is              func(head []byte) bool
	problem, advice string
}{
	{isSpace, "the file is empty space: the download did not run, or has reserved the file and not filled it", again},
	{at(0, "version https://git-lfs"), "it is a Git LFS pointer, not the file itself", `fetch the file with "git lfs pull"`},
	{at(0, "<!DOCTYPE", "<!doctype", "<html", "<HTML"), "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{at(0, "<?xml"), "it is an XML text, not the file", "fetch the file again; the text may say why the download failed"},
	{at(0, "MZqFpD"), "it is a llamafile, a program with a model in it", "take the model out with unzip FILE '*.gguf'"},
	{firstMember(".npy"), "it is a NumPy archive (npz)", arrays},
	{firstMember("/data.pkl", "/version", "/byteorder", "/.format_version"), "it is a ZIP archive as PyTorch writes its models", convert},
	{at(0, "PK\x03\x04", "PK\x05\x06"), "it is a ZIP archive", members},
	{at(0, "\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"), "it is a Python pickle, as PyTorch writes its models", convert},
	{at(0, "\x93NUMPY"), "it is a NumPy array", arrays},
	{at(0, "\x1f\x8b"), "it is compressed (gzip)", "unpack it first, with gunzip"},
	{at(0, "\x28\xb5\x2f\xfd"), "it is compressed (zstd)", "unpack it first, with unzstd"},
	{at(0, "\xfd7zXZ\x00"), "it is compressed (xz)", "unpack it first, with unxz"},
	{at(0, "BZh"), "it is compressed (bzip2)", "unpack it first, with bunzip2"},
	{at(0, "\x04\x22\x4d\x18"), "it is compressed (lz4)", "unpack it first, with unlz4"},
	{at(0, "7z\xbc\xaf\x27\x1c"), "it is a 7z archive", members},
	{at(0, "Rar!\x1a\x07"), "it is a RAR archive", members},
	{at(257, "ustar"), "it is a tar archive", members},
	{at(0, "\x89HDF\r\n\x1a\n"), "it is an HDF5 file, as Keras writes its models", another},
	{at(4, "TFL3"), "it is a TensorFlow Lite model", another},
	{isMatrix, "it is an importance matrix in the old format of llama.cpp", "convert it with llama-imatrix --in-file imatrix.dat -o imatrix.gguf"},
	{isONNX, "it is an ONNX model", another},
	{isRecipe, "it is a recipe of mergekit", "name it as the model of a command; it cannot be an adapter, or a model of another recipe"},
	{at(0, "\x7fELF"), "it is a program (ELF)", "name the model file; the model in a llamafile is taken out with unzip FILE '*.gguf'"},
}

// names are files that their names identify. If the content is more exact than the name,
// the row is only for directories, whose files are not opened.
var names = []struct {
	pattern, what string // pattern is path.Match's
	inDirectory   bool
}{
	{"*.onnx", "an ONNX model", false},
	{"*.onnx_data", "the external data of an ONNX model", false},
	{"*.onnx.data", "the external data of an ONNX model", false},
	{"saved_model.pb", "a TensorFlow SavedModel", false},
	{"*.mlmodel", "a Core ML model", false},
	{"*.mlpackage", "a Core ML model", false},
	{"*.tflite", "a TensorFlow Lite model", false},
	{"*.msgpack", "a model of Flax", false},
	{"*.h5", "a model of Keras", true},
	{"*.keras", "a model of Keras", true},
	{"*.llamafile", "a llamafile", true},
	{"*.npz", "a NumPy archive", true},
	{"pytorch_model*.bin", "a model of PyTorch", true},
	{"*.pt", "a model of PyTorch", true},
	{"*.pth", "a model of PyTorch", true},
	{"*.ckpt", "a model of PyTorch", true},
}

// File describes a file that is not a model in any format that is read, and what to do.
// problem is "" if nothing is known.
func File(name string, content tensorfs.Data) (problem, advice string) {
	head := make([]byte, min(headSize, content.Size()))
	if tensorfs.ReadFull(content, head, 0) != nil {
		return "", "" // reading the file for its own sake gives the error
	}
	for _, c := range contents {
		if c.is(head) {
			return c.problem, c.advice
		}
	}
	if strings.HasSuffix(name, ".gguf") || strings.HasSuffix(name, ".safetensors") {
		if problem, advice := identifyText(head); problem != "" {
			return problem, advice
		}
	}
	if m := modelfile().FindSubmatch(head); m != nil {
		return "it is an Ollama Modelfile, which only names a model", "name the model of its FROM line: " + tensorfs.Printable(string(m[1]))
	}
	if problem, advice := Piece(name); problem != "" {
		return problem, advice
	}
	return byName(name)
}

// modelfile matches the beginning of a Modelfile: comments, and the line that names the model.
var modelfile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?i:FROM)[ \t]+(\S+)[ \t]*(?:\r?\n|$)`)
})

// unfinished are the ends of the names that programs give to what they have not downloaded yet.
var unfinished = []string{".incomplete", ".part", ".partial", ".crdownload", ".download", ".aria2", ".filepart", ".!qb", ".tmp"}

// piece matches the names of chunks of a file that was cut for its upload or by split(1).
var piece = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.+\.(?:gguf|safetensors))[.-]?(?:part-?[0-9a-z]+(?:of[0-9]+)?|split-?[0-9a-z]+|[0-9]{2,3}|[a-z]{2})$`)
})

// Piece recognises a chunk of a file by its name and returns what to do, "" if it is not
// one. The first chunk begins as the file does. The same holds for files that a program has
// not finished downloading.
func Piece(name string) (problem, advice string) {
	if slices.Contains(unfinished, strings.ToLower(path.Ext(name))) {
		return "it is an unfinished download", "let the program that downloads it finish, or fetch it again; the file has another name then"
	}
	m := piece().FindStringSubmatch(name)
	if m == nil {
		return "", ""
	}
	whole := tensorfs.Quote(m[1])
	return "it is a piece of " + whole + ", which was cut", "join its pieces in their order with cat, as " + whole
}

// byName identifies what only its name can identify.
func byName(name string) (problem, advice string) {
	for _, n := range names {
		if ok, _ := path.Match(n.pattern, name); ok && !n.inDirectory {
			return "it is " + n.what, another
		}
	}
	return "", ""
}

// Directory describes what a directory of that name, with entries of these names, holds
// instead of a model. problem is "" if nothing is known.
func Directory(name string, entries []string) (problem, advice string) {
	if problem, advice := byName(name); problem != "" {
		return problem, advice
	}
	if slices.Contains(entries, pickledAdapter) {
		return pickledAdapter + " is a pickle", "save it as safetensors, with PEFT's save_pretrained(DIR, safe_serialization=True)"
	}
	for _, e := range entries {
		if problem, advice := Piece(e); problem != "" {
			return "it has no safetensors and no GGUF file, only pieces: " + tensorfs.Quote(e) + strings.TrimPrefix(problem, "it"), advice
		}
	}
	for _, n := range names {
		for _, e := range entries {
			if ok, _ := path.Match(n.pattern, e); !ok {
				continue
			}
			advice := another
			if strings.HasSuffix(n.what, "PyTorch") {
				advice = convert
			}
			return "it has no safetensors and no GGUF file, only " + tensorfs.Quote(e) + ", " + n.what, advice
		}
	}
	return "", ""
}

// pickledAdapter is how PEFT called adapters before it wrote safetensors.
const pickledAdapter = "adapter_model.bin"

// at matches files with one of these texts at an offset.
func at(off int, texts ...string) func([]byte) bool {
	return func(head []byte) bool {
		for _, s := range texts {
			if len(head) >= off+len(s) && string(head[off:off+len(s)]) == s {
				return true
			}
		}
		return false
	}
}

// isSpace matches a file that begins with nothing but zeros, as one whose space was
// reserved, or that has a hole there.
func isSpace(head []byte) bool {
	return len(head) >= leastSpace && len(bytes.Trim(head, "\x00")) == 0
}

// leastSpace is how many zeros no format begins with.
const leastSpace = 64

// firstMember matches ZIP archives by how the name of the first member ends.
//
//	PK 03 04 | 22 bytes | length of the name, of more, uint16 each | name
func firstMember(suffixes ...string) func([]byte) bool {
	return func(head []byte) bool {
		const fixed = 30
		if !bytes.HasPrefix(head, []byte("PK\x03\x04")) || len(head) < fixed {
			return false
		}
		name := head[fixed:]
		name = name[:min(len(name), int(binary.LittleEndian.Uint16(head[26:])))]
		for _, s := range suffixes {
			if bytes.HasSuffix(name, []byte(s)) {
				return true
			}
		}
		return false
	}
}

// isMatrix matches llama.cpp's imatrix.dat: a count, and the first tensor's name
// after its length.
func isMatrix(head []byte) bool {
	if len(head) < 12 {
		return false
	}
	count, length := binary.LittleEndian.Uint32(head), int64(binary.LittleEndian.Uint32(head[4:]))
	if count == 0 || count > 1<<20 || length < 4 || length > 256 || int64(len(head)) < 8+length {
		return false
	}
	name := string(head[8 : 8+length])
	return strings.HasSuffix(name, ".weight") && utf8.ValidString(name)
}

// isRecipe matches a text that has the key common to all of mergekit's recipes near its
// beginning. Opening the recipe reads all of it.
func isRecipe(head []byte) bool {
	const key = "merge_method:"
	return bytes.HasPrefix(head, []byte(key)) || bytes.Contains(head, []byte("\n"+key))
}

// isONNX matches the protocol buffer of an ONNX model: field 1, the version of the
// format, and then a text (the producer's name or its version), the version of an
// operator set, or the graph.
func isONNX(head []byte) bool {
	if len(head) < 16 || head[0] != 0x08 || head[1] == 0 || head[1] > 30 {
		return false
	}
	const producer, version, graph, opset = 0x12, 0x1a, 0x3a, 0x42
	switch head[2] {
	case producer, version:
		n := int(head[3])
		return n < 100 && 4+n < len(head) && isText(head[4:4+n])
	case graph:
		return true
	case opset:
		return head[3] < 100
	}
	return false
}

// answers are how the texts begin that servers send instead of a file.
var answers = []struct {
	start []string
	why   string
	do    string
}{
	{[]string{"Access to model", "Access denied", "Invalid username", "Invalid credentials", "Unauthorized", "Forbidden", `{"error":"Access`, `{"error":"Unauth`, `{"error":"Invalid`},
		": the download was refused", "log in and fetch it again"},
	{[]string{"Entry not found", "Repository not found", "Revision not found", "Not Found", "404"}, ": the server does not have it", "check its name and fetch it again"},
	{[]string{""}, "", again + "; the text may say why the download failed"},
}

// identifyText identifies a text that was found instead of weights.
func identifyText(head []byte) (problem, advice string) {
	if len(head) < 5 {
		return "", ""
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	const few = 60
	shown := string(bytes.TrimSpace(line))
	if r := []rune(shown); len(r) > few {
		shown = string(r[:few]) + "..."
	}
	if !isText(head) {
		return "", ""
	}
	for _, a := range answers {
		for _, s := range a.start {
			if bytes.HasPrefix(head, []byte(s)) {
				return "it is a text (" + tensorfs.Quote(shown) + "), not the file" + a.why, a.do
			}
		}
	}
	return "", ""
}

// isText reports whether b is UTF-8 without control bytes. The last letter may be cut.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return !utf8.FullRune(b)
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f {
			return false
		}
		b = b[n:]
	}
	return true
}
