package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// pipelineFiles are the files of a pipeline of diffusers: a denoiser, a VAE and two text encoders, whose
// tokenizers are in directories of their own.
func pipelineFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"scheduler/scheduler_config.json": []byte("{}")}
	for from, to := range map[string]string{
		"images/flux-diffusers/transformer": "transformer", "images/flux-diffusers/vae": "vae",
		"architectures/t5encoder": "text_encoder_2", "architectures/qwen2.5-vl": "text_encoder",
	} {
		found, err := os.ReadDir(testdata + from)
		must(t, err)
		for _, e := range found {
			b, err := os.ReadFile(filepath.Join(testdata+from, e.Name()))
			must(t, err)
			at := to
			if strings.HasPrefix(e.Name(), "tokenizer") || e.Name() == "spiece.model" {
				at = strings.Replace(to, "text_encoder", "tokenizer", 1)
			}
			files[at+"/"+e.Name()] = b
		}
	}
	files["model_index.json"] = []byte(`{"_class_name":"FluxPipeline","_diffusers_version":"0.36.0","scheduler":["diffusers","FlowMatchEulerDiscreteScheduler"],` +
		`"text_encoder":["transformers","Qwen2_5_VLForConditionalGeneration"],"text_encoder_2":["transformers","T5EncoderModel"],"tokenizer":["transformers","Qwen2Tokenizer"],` +
		`"tokenizer_2":["transformers","T5TokenizerFast"],"transformer":["diffusers","FluxTransformer2DModel"],"vae":["diffusers","AutoencoderKL"],"image_encoder":[null,null],"feature_extractor":["transformers","X"]}`)
	return files
}

// TestPipeline holds that a pipeline of diffusers is read by its parts.
func TestPipeline(t *testing.T) {
	apart(t)
	dir := filepath.Join(t.TempDir(), "pipe")
	must(t, testmodel.Write(dir, pipelineFiles(t)))
	ok := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := command(args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}

	screen := ok("info", dir)
	for _, want := range []string{
		"pipeline      FluxPipeline", "FluxTransformer2DModel", "AutoencoderKL", "T5EncoderModel", "gguf/, hf/",
		"scheduler (FlowMatchEulerDiscreteScheduler)", "tokenizer_2 (T5TokenizerFast)", "feature_extractor (X)",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("info lacks %q:\n%s", want, screen)
		}
	}
	var info struct {
		Format, Pipeline string
		Parts            []struct {
			Name, Library, Class, Error string
			Missing                     bool
			Model                       *struct {
				Architecture string
				Tensors      int
			}
		}
	}
	must(t, json.Unmarshal([]byte(ok("info", "--json", dir)), &info))
	var parts []string
	for _, p := range info.Parts {
		line := p.Name + " " + p.Class
		if p.Model != nil {
			line += " " + p.Model.Architecture
		}
		if p.Missing {
			line += " missing"
		}
		parts = append(parts, line+p.Error)
	}
	if want := []string{"feature_extractor X missing", "scheduler FlowMatchEulerDiscreteScheduler", "text_encoder Qwen2_5_VLForConditionalGeneration qwen2vl", "text_encoder_2 T5EncoderModel t5encoder",
		"tokenizer Qwen2Tokenizer", "tokenizer_2 T5TokenizerFast", "transformer FluxTransformer2DModel flux", "vae AutoencoderKL unknown"}; !slices.Equal(parts, want) || info.Pipeline != "FluxPipeline" || info.Format != "diffusers" {
		t.Errorf("info --json: %q %q %q\nwant %q", info.Format, info.Pipeline, parts, want)
	}

	list := strings.Fields(ok("ls", dir))
	for _, want := range []string{"README", "transformer/gguf/model.gguf", "transformer/raw/proj_out.weight", "text_encoder_2/gguf/model.gguf", "text_encoder_2/source/tokenizer.json", "vae/README"} {
		if !slices.Contains(list, want) {
			t.Errorf("ls lacks %s", want)
		}
	}
	if got := ok("ls", dir, "*/gguf/*.gguf"); got != "text_encoder/gguf/mmproj.gguf\ntext_encoder/gguf/model.gguf\ntext_encoder_2/gguf/model.gguf\ntransformer/gguf/model.gguf\n" {
		t.Errorf("ls with a pattern:\n%s", got)
	}
	if got := ok("ls", "-l", dir, "vae/raw"); !strings.Contains(got, "BF16") || strings.Count(got, "\n") != 1 {
		t.Errorf("ls -l of one directory:\n%s", got)
	}

	// Each part is what a directory with all of its files is.
	whole := map[string][]byte{}
	for name, b := range pipelineFiles(t) {
		if dir, file, ok := strings.Cut(name, "/"); ok {
			whole[strings.Replace(dir, "tokenizer", "text_encoder", 1)+"/"+file] = b
		}
	}
	alone := t.TempDir()
	must(t, testmodel.Write(alone, whole))
	for _, path := range []string{
		"text_encoder_2/gguf/model.gguf", "text_encoder/gguf/model.gguf", "text_encoder/gguf/mmproj.gguf", "transformer/gguf/model.gguf",
		"/text_encoder_2/hf/spiece.model", "text_encoder_2/source/tokenizer.json", "vae/npy/x.npy",
	} {
		part, file, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if file == "npy/x.npy" {
			file = strings.Fields(ok("ls", dir, part+"/npy"))[0]
			path, file = file, strings.TrimPrefix(file, part+"/")
		}
		want := ok("cat", filepath.Join(alone, part), file)
		for _, args := range [][]string{{dir, path}, {filepath.Join(dir, part), file}} {
			if got := ok(append([]string{"cat"}, args...)...); got != want {
				t.Errorf("cat %q is not what the same model has elsewhere", args)
			}
		}
	}
	if got := ok("cat", dir, "vae/gguf/tensorfs.json"); !strings.Contains(got, "no rules for a GGUF file of diffusers' ") {
		t.Errorf("gguf/ of a VAE: %s", got)
	}
	if got := ok("cat", dir, "README"); !strings.Contains(got, dir) {
		t.Errorf("README: %s", got)
	}
	must(t, testmodel.Write(dir, map[string][]byte{"flux1.safetensors": pipelineFiles(t)["vae/diffusion_pytorch_model.safetensors"]})) // the denoiser once more
	for args, want := range map[string]string{
		"cat D transformer":          "transformer is a directory; tensorfs ls D/transformer lists it",
		"cat D transformer/raw":      "raw is a directory; tensorfs ls D/transformer raw lists it",
		"cat D transformer/raw/none": "raw/none is not in the tree; tensorfs ls D/transformer shows the paths",
		"cat D scheduler/x":          "scheduler/x is not in the tree; tensorfs ls D shows the paths",
		"ls D none":                  `no path of the tree matches "none"; tensorfs ls D shows all`,
		"stat D":                     "D: it is a diffusers pipeline with the parts text_encoder, text_encoder_2, transformer, vae; name one, such as D/text_encoder",
		"report D":                   "D: it is a diffusers pipeline with the parts text_encoder, text_encoder_2, transformer, vae; name one, such as D/text_encoder",
		"diff D D/vae":               "D: it is a diffusers pipeline with the parts text_encoder, text_encoder_2, transformer, vae; name one, such as D/text_encoder",
		"info --context 8 D":         "D: it is a diffusers pipeline with the parts text_encoder, text_encoder_2, transformer, vae; name one, such as D/text_encoder",
	} {
		code, _, stderr := command(strings.Fields(strings.ReplaceAll(args, "D", dir))...)
		if want = "tensorfs: " + strings.ReplaceAll(want, "D", dir) + "\n"; code == 0 || stderr != want {
			t.Errorf("%s: exit code %d\n%swant\n%s", args, code, stderr, want)
		}
	}

	must(t, testmodel.Write(dir, map[string][]byte{"vae/diffusion_pytorch_model.safetensors": []byte("x")}))
	if code, stdout, stderr := command("ls", dir, "*/config.json"); code != 1 || strings.Count(stdout, "\n") < 3 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "vae/diffusion_pytorch_model.safetensors") {
		t.Errorf("ls of a pipeline with a broken part: exit code %d\n%s%s", code, stdout, stderr)
	}
	if got := ok("info", dir); !strings.Contains(got, "FluxPipeline") || !strings.Contains(got, "flux1") {
		t.Errorf("info with a file beside the parts:\n%s", got)
	}
}

// TestPipelineOfHub holds that a pipeline in the Hugging Face cache is read by its parts, and that a
// text encoder on the Hub has its tokenizer.
func TestPipelineOfHub(t *testing.T) {
	apart(t)
	cache := t.TempDir()
	t.Setenv("HF_HUB_CACHE", cache)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	repository := map[string][]byte{"models--acme--pipe/refs/main": []byte(commit)}
	for name, b := range pipelineFiles(t) {
		repository["models--acme--pipe/snapshots/"+commit+"/"+name] = b
	}
	must(t, testmodel.Write(cache, repository))
	if screen := succeeds(t, "info", "hf:acme/pipe"); !strings.Contains(screen, "FluxPipeline") || !strings.Contains(screen, "tensorfs info hf:acme/pipe/text_encoder\n") {
		t.Errorf("info:\n%s", screen)
	}
	want := succeeds(t, "cat", "hf:acme/pipe/text_encoder_2", "gguf/model.gguf")
	if got := succeeds(t, "cat", "hf:acme/pipe", "text_encoder_2/gguf/model.gguf"); got != want {
		t.Error("a part has another gguf/ by its path in the pipeline")
	}

	h := testhub.NewHub(t)
	h.Commit("acme/pipe", pipelineFiles(t), "main")
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	if code, got, stderr := command("cat", "hf:acme/pipe/text_encoder_2", "hf/spiece.model"); code != 0 || got != string(pipelineFiles(t)["tokenizer_2/spiece.model"]) {
		t.Errorf("the tokenizer of a text encoder on the Hub: exit code %d, %q", code, stderr)
	}
}

// TestPipelineDiff holds that two pipelines are compared part by part.
func TestPipelineDiff(t *testing.T) {
	apart(t)
	files := pipelineFiles(t)
	a, b := t.TempDir(), t.TempDir()
	must(t, testmodel.Write(a, files))
	delete(files, "vae/config.json")
	delete(files, "vae/diffusion_pytorch_model.safetensors")
	must(t, testmodel.Write(b, files))
	text := succeeds(t, "diff", a, a)
	if strings.Count(text, "==>") != 4 || !strings.Contains(text, "==> vae <==\n") || !strings.Contains(text, "66 tensors: 66 equal") {
		t.Errorf("a pipeline and itself:\n%s", text)
	}
	code, text, _ := command("diff", a, b)
	if code != 1 || !strings.Contains(text, "\n==> vae <==\nonly in A\n") {
		t.Errorf("a part of only one: exit code %d\n%s", code, text)
	}
	code, text, _ = command("diff", "--json", b, a)
	var got struct {
		Equal bool
		Parts []struct {
			Part   string
			OnlyIn string `json:"only_in"`
			Report *struct{ Equal bool }
		}
	}
	must(t, json.Unmarshal([]byte(text), &got))
	if len(got.Parts) != 4 || code != 1 || got.Equal || got.Parts[3].OnlyIn != "B" || got.Parts[0].Report == nil || !got.Parts[0].Report.Equal {
		t.Errorf("--json: exit code %d\n%s", code, text)
	}
}
