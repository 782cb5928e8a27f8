package foreign_test

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/foreign"
)

// zip is the beginning of a ZIP archive whose first member has that name.
func zip(member string) string {
	return "PK\x03\x04" + strings.Repeat("\x00", 22) + string(rune(len(member))) + "\x00\x00\x00" + member + "..."
}

const (
	safetensors = "save the model as safetensors first, with transformers' save_pretrained(DIR, safe_serialization=True)"
	another     = "fetch the model as safetensors or GGUF, which tensorfs reads"
)

func TestFile(t *testing.T) {
	for _, x := range []struct{ name, content, problem, advice string }{
		{"m.gguf", "version https://git-lfs.github.com/spec/v1\n", "it is a Git LFS pointer, not the file itself", `fetch the file with "git lfs pull"`},
		{"m", "<!DOCTYPE html>", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
		{"m", "<?xml version=\"1.0\"?><Error>", "it is an XML text, not the file", "fetch the file again; the text may say why the download failed"},
		{"m.llamafile", "MZqFpD='\n", "it is a llamafile, a program with a model in it", "take the model out with unzip FILE '*.gguf'"},
		{"w.npz", zip("a.npy"), "it is a NumPy archive (npz)", "save its arrays as safetensors first, with safetensors.numpy.save_file"},
		{"m.pt", zip("archive/data.pkl"), "it is a ZIP archive as PyTorch writes its models", safetensors},
		{"m.zip", zip("readme.txt"), "it is a ZIP archive", "unpack it first"},
		{"m.zip", zip(strings.Repeat("x", 120) + ".npy"), "it is a NumPy archive (npz)", ""},
		{"m.zip", "PK\x03\x04", "it is a ZIP archive", "unpack it first"},
		{"m.zip", "PK\x03\x04" + strings.Repeat("\xff", 22) + "\xff\xff\xff\xff.npy", "it is a NumPy archive (npz)", ""},
		{"m.pt", "\x80\x02}q", "it is a Python pickle, as PyTorch writes its models", safetensors},
		{"m.npy", "\x93NUMPY\x01\x00", "it is a NumPy array", ""},
		{"m.gguf.gz", "\x1f\x8b\x08", "it is compressed (gzip)", "unpack it first, with gunzip"},
		{"m.gguf", "\x28\xb5\x2f\xfd", "it is compressed (zstd)", "unpack it first, with unzstd"},
		{"m.gguf", "\xfd7zXZ\x00", "it is compressed (xz)", "unpack it first, with unxz"},
		{"m.gguf", "BZh9", "it is compressed (bzip2)", "unpack it first, with bunzip2"},
		{"m.gguf", "\x04\x22\x4d\x18", "it is compressed (lz4)", "unpack it first, with unlz4"},
		{"m", "7z\xbc\xaf\x27\x1c", "it is a 7z archive", ""},
		{"m", "Rar!\x1a\x07", "it is a RAR archive", ""},
		{"m", strings.Repeat("\x00", 257) + "ustar", "it is a tar archive", ""},
		{"m.h5", "\x89HDF\r\n\x1a\n", "it is an HDF5 file, as Keras writes its models", another},
		{"m.tflite", "\x1c\x00\x00\x00TFL3", "it is a TensorFlow Lite model", another},
		{"imatrix.dat", "\xe1\x00\x00\x00\x13\x00\x00\x00blk.0.attn_q.weight\x01\x00\x00\x00", "it is an importance matrix in the old format of llama.cpp", "convert it with llama-imatrix --in-file imatrix.dat -o imatrix.gguf"},
		{"m.bin", "\x08\x07\x12\x07pytorch\x1a\x052.1.0:", "it is an ONNX model", another},
		{"m.bin", "\x08\x08\x3a\x80\x01" + strings.Repeat("\x0a", 20), "it is an ONNX model", another},
		{"recipe.yml", "models: []\nmerge_method: linear\n", "it is a recipe of mergekit", "name it as the model of a command; it cannot be an adapter, or a model of another recipe"},
		{"recipe.yml", "my_merge_method: linear\n", "", ""},
		{"m.Q8_0.gguf.part2of3", "?", `it is a piece of "m.Q8_0.gguf", which was cut`, `join its pieces in their order with cat, as "m.Q8_0.gguf"`},
		{"m.gguf-split-b", "?", `it is a piece of "m.gguf", which was cut`, `join its pieces in their order with cat, as "m.gguf"`},
		{"m.gguf-part-b", "?", `it is a piece of "m.gguf", which was cut`, ""},
		{"m.gguf.002", "?", `it is a piece of "m.gguf", which was cut`, ""},
		{"m.safetensors.ab", "?", `it is a piece of "m.safetensors", which was cut`, ""},
		{"m.gguf.bak", "?", "", ""},
		{"m.gguf.part", "?", "it is an unfinished download", "let the program that downloads it finish, or fetch it again; the file has another name then"},
		{"0123.incomplete", "", "it is an unfinished download", ""},
		{"m.GGUF.CRDOWNLOAD", "?", "it is an unfinished download", ""},
		{"Modelfile", "FROM gemma3", "it is an Ollama Modelfile, which only names a model", "name the model of its FROM line: gemma3"},
		{"Modelfile", "# made by me\r\n\r\n  # again\nfrom ./m.gguf  \nSYSTEM x\n", "it is an Ollama Modelfile, which only names a model", "name the model of its FROM line: ./m.gguf"},
		{"x", "FROM the beginning of time\n", "", ""},
		{"m.onnx", "?", "it is an ONNX model", another},
		{"m.onnx_data", "\x00\x00", "it is the external data of an ONNX model", another},
		{"m.onnx.data", "\x00\x00", "it is the external data of an ONNX model", another},
		{"saved_model.pb", "\x08\x01", "it is a TensorFlow SavedModel", another},
		{"m.mlmodel", "\x08\x01", "it is a Core ML model", another},
		{"flax_model.msgpack", "\x81", "it is a model of Flax", another},
		{"m", "\x7fELF\x02", "it is a program (ELF)", "name the model file; the model in a llamafile is taken out with unzip FILE '*.gguf'"},
		{"m.gguf", "Access to model meta-llama/Llama-2-7b is restricted and you are not in the authorized list. Visit the page.",
			`it is a text ("Access to model meta-llama/Llama-2-7b is restricted and you ..."), not the file: the download was refused`, "log in and fetch it again"},
		{"m.safetensors", "Invalid username or password.", `it is a text ("Invalid username or password."), not the file: the download was refused`, "log in and fetch it again"},
		{"m.safetensors", `{"error":"Unauthorized"}`, `it is a text ("{\"error\":\"Unauthorized\"}"), not the file: the download was refused`, ""},
		{"m.safetensors", "Entry not found", `it is a text ("Entry not found"), not the file: the server does not have it`, "check its name and fetch it again"},
		{"m.gguf", "hello\nworld\x1b", "", ""},
		{"m.gguf", "hello\nworld", `it is a text ("hello"), not the file`, "fetch the file again; the text may say why the download failed"},
		{"m.gguf", strings.Repeat("ä", 300), `it is a text ("` + strings.Repeat("ä", 50) + `"... (`, ""},
		{"m.gguf", "x" + strings.Repeat("ä", 300), `it is a text (`, ""}, // the last letter is cut
		{"m.gguf", "\xe2\x80\xaeoops", `it is a text ("\u202eoops")`, ""},
		{"m.gguf", "\xff\xfe\xfd\xfc\xfb", "", ""},
		{"m.gguf", "GG", "", ""},
		{"notes.txt", "hello\nworld", "", ""},
		{"m.bin", "\x00\x01\x02\x03", "", ""},
		{"m.gguf", strings.Repeat("\x00", 1000), "the file is empty space: the download did not run", "fetch the file again"},
		{"m", strings.Repeat("\x00", 64), "the file is empty space: the download did not run", "fetch the file again"},
		{"m", strings.Repeat("\x00", 511) + "x", "", ""},
		{"m", strings.Repeat("\x00", 63), "", ""},
		{"m", "", "", ""},
		{"m", "\x08\x07\x12\x70", "", ""},
		{"m", "\x01\x00\x00\x00\xff\xff\xff\xffblk.0.attn_q.weight", "", ""},
	} {
		problem, advice := foreign.File(x.name, tensorfs.Bytes(x.content))
		if !strings.HasPrefix(problem, x.problem) || x.problem == "" && problem != "" || (problem == "") != (advice == "") || x.advice != "" && advice != x.advice {
			t.Errorf("%s, %.20q: %s; %s, want %s; %s", x.name, x.content, problem, advice, x.problem, x.advice)
		}
	}
}

func TestDirectory(t *testing.T) {
	for _, x := range []struct{ name, entries, problem, advice string }{
		{"m", "config.json pytorch_model-00001-of-00002.bin tf_model.h5", `it has no safetensors and no GGUF file, only "tf_model.h5", a model of Keras`, another},
		{"m", "pytorch_model-00001-of-00002.bin", `it has no safetensors and no GGUF file, only "pytorch_model-00001-of-00002.bin", a model of PyTorch`, safetensors},
		{"m", "model.onnx model.onnx_data", `only "model.onnx", an ONNX model`, another},
		{"m", "saved_model.pb variables", `only "saved_model.pb", a TensorFlow SavedModel`, another},
		{"m.mlpackage", "Data Manifest.json", "it is a Core ML model", another},
		{"m", "m.gguf.part1of2 m.gguf.part2of2", `it has no safetensors and no GGUF file, only pieces: "m.gguf.part1of2" is a piece of "m.gguf", which was cut`, `join its pieces in their order with cat, as "m.gguf"`},
		{"m", "training.bin readme", "", ""},
		{"m", "", "", ""},
	} {
		problem, advice := foreign.Directory(x.name, strings.Fields(x.entries))
		if !strings.HasSuffix(problem, x.problem) || x.problem == "" && problem != "" || advice != x.advice {
			t.Errorf("%s with %s: %s; %s, want %s; %s", x.name, x.entries, problem, advice, x.problem, x.advice)
		}
	}
}

// FuzzFile holds that any file is identified in a line, or not.
func FuzzFile(f *testing.F) {
	f.Add("m.gguf", []byte("Access to model x"))
	f.Add("m.bin", []byte(zip("a.npy")))
	f.Add("imatrix.dat", []byte("\x01\x00\x00\x00\x04\x00\x00\x00blk."))
	f.Add("m", []byte("\x08\x07\x12\x07pytorch\x1a\x052.1.0:"))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		problem, advice := foreign.File(name, tensorfs.Bytes(content))
		if (problem == "") != (advice == "") || strings.ContainsAny(problem+advice, "\n\x1b") || len(problem) > 700 {
			t.Fatalf("%q; %q", problem, advice)
		}
	})
}
