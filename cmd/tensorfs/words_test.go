package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli/theirs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestTheirWords holds what is said to the words of other programs: what was typed, the
// exit status, and a part of the answer.
func TestTheirWords(t *testing.T) {
	model, err := filepath.Abs(ggufDir + "llama-xs.f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "HF_HUB_CACHE": filepath.Join(home, "hub"), "OLLAMA_MODELS": filepath.Join(home, "ollama"), "TENSORFS_CACHE": filepath.Join(home, "cache")} {
		t.Setenv(name, value)
	}
	content, err := os.ReadFile(model)
	must(t, err)
	const snapshot = "models--acme--tiny/snapshots/0123456789012345678901234567890123456789/"
	must(t, testmodel.Write(filepath.Join(home, "hub"), map[string][]byte{
		snapshot + "tiny-Q4_K_M.gguf": content, snapshot + "tiny-Q8_0.gguf": content, "models--acme--tiny/refs/main": []byte("0123456789012345678901234567890123456789"),
	}))
	t.Chdir(t.TempDir())
	must(t, testmodel.Write(".", map[string][]byte{
		"My Model.gguf": content, "Modelfile": []byte("# made by hand\nFROM ./m.gguf\nPARAMETER top_k 3\n"), "m.gguf.part": content[:999], "m.safetensors.incomplete": nil, ".lmstudio/models/a/b/c.gguf": content,
	}))
	for _, c := range []struct {
		typed  string
		status int
		says   string
	}{
		{"show m.gguf", 2, "did you mean tensorfs info m.gguf?"},
		{"dump", 2, "did you mean tensorfs info MODEL?"},
		{"inspect hf:a/b", 2, "did you mean tensorfs info hf:a/b?"},
		{"convert m.safetensors", 2, "did you mean tensorfs cat --gguf-type q4_k_m m.safetensors gguf/model.gguf > model.gguf?"},
		{"quantize m.gguf", 2, "cat --gguf-type"},
		{"pull gemma3", 2, "did you mean tensorfs fetch ollama:gemma3?"},
		{"pull hf:a/b", 2, "did you mean tensorfs fetch hf:a/b?"},
		{"download hf:a/b", 2, "did you mean tensorfs fetch hf:a/b?"},
		{"run gemma3", 2, "tensorfs runs no models"},
		{"mnt m.gguf x", 2, "did you mean tensorfs mount m.gguf MOUNTPOINT?"},
		{"detach x", 2, "did you mean tensorfs umount x?"},
		{"ps", 2, "did you mean tensorfs status?"},
		{"info --ctx-size 4096 MODEL", 2, "did you mean --context?"},
		{"info -c 4096 MODEL", 2, "did you mean --context?"},
		{"info --jsno MODEL", 2, "did you mean --json?"},
		{"info --verison", 2, "unknown flag: --verison"},
		{"--verison", 2, "did you mean --version?"},
		{"mount --view f16 MODEL x", 2, "did you mean --views?"},
		{"mount --daemon MODEL x", 2, "leave it out: mount returns as soon as the files are there"},
		{"mount --background MODEL x", 2, "leave it out: mount returns as soon as the files are there"},
		{"export --q-bits 4 MODEL out", 2, "did you mean --mlx-bits?"},
		{"cat -o x MODEL", 2, "add > FILE"},
		{"info --context 4k MODEL", 0, "4096 tokens"},
		{"info --context 4K MODEL", 0, "4096 tokens"},
		{"info --context 4,096 MODEL", 0, "4096 tokens"},
		{"info --context max MODEL", 0, "4096 tokens"},
		{"info --context -1 MODEL", 2, "0 is as many as the model was trained with"},
		{"info --context 32kk MODEL", 2, "such as 8192 or 32k"},
		{"info --context 4,0966 MODEL", 2, "such as 8192 or 32k"},
		{"info --context 9m9 MODEL", 2, "such as 8192 or 32k"},
		{"info --context 4k --gpu 24 MODEL", 2, "want the memory of a GPU, such as 24G"},
		{"info --context 4k --gpu 1.5T MODEL", 0, "fit into 1.5 TiB"},
		{"info --context 4k --cache-type-k q8 MODEL", 2, "did you mean q8_0?"},
		{"cat --gguf-type= MODEL gguf/model.gguf", 2, "--gguf-type is empty"},
		{"cat --gguf-type q4km MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type UD-Q4_K_XL MODEL gguf/model.gguf", 2, "a publisher's own mix of types; name a file that has the mix with --tensor-types-from FILE.gguf"},
		{"cat --types-from OTHER MODEL gguf/model.gguf", 2, "did you mean --tensor-types-from"},
		{"cat --gguf-type 4bit MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type int8 MODEL gguf/model.gguf", 2, "did you mean Q8_0?"},
		{"cat --gguf-type half MODEL gguf/model.gguf", 2, "did you mean F16?"},
		{"info --offline hf:https://huggingface.co/a/b", 1, "hf:a/b: it is not in the cache"},
		{"info --offline ollama://gemma3", 1, "ollama:gemma3:latest: there is no"},
		{"info --offline https://ollama.com/library/gemma3:4b", 1, "ollama:gemma3:4b: there is no"},
		{"info --offline https://registry.ollama.ai/mike/x", 1, "ollama:mike/x:latest: there is no"},
		{"info registry.ollama.ai/library/gemma3", 1, "did you mean ollama:gemma3?"},
		{"info git@hf.co:a/b", 1, "did you mean hf:a/b?"},
		{"info file:///m.gguf", 1, "write it as /m.gguf"},
		{"info docker://x/y", 1, "write it as oci://x/y"},
		{"info oci:x/y", 1, "write it as oci://x/y"},
		{"info ms:a/b", 1, "ms:a/b: not on this machine"},
		{"info ~/m.gguf", 2, "outside quotes"},
		{"mount MODEL ~/m", 2, "outside quotes"},
		{"mount --cache=~/c MODEL m", 2, "--cache ~/c: the shell replaces ~ by the home directory"},
		{"export --lora ~root/a MODEL out .", 2, "--lora ~root/a: the shell replaces"},
		{"info -c=4096 MODEL", 2, "did you mean --context?"},
		{"info -c4096 MODEL", 2, "did you mean --context?"},
		{"info --verison MODEL", 2, "did you mean tensorfs --version?"},
		{"info --version MODEL", 2, "did you mean tensorfs --version?"},
		{"-v", 0, "tensorfs ("},
		{"--help mount", 0, "tensorfs mount [flags] MODEL"},
		{"export MODEL out f16 --port 3", 2, "unknown flag: --port; see tensorfs export --help"},
		{"verify --gpu 3G MODEL", 2, "tensorfs verify has no such flag, tensorfs info does"},
		{"info --n-gpu-layers 99 MODEL", 2, "--gpu SIZE with --context prints how many layers fit"},
		{"info -ngl 99 MODEL", 2, "--gpu SIZE with --context prints how many layers fit"},
		{"info -m MODEL", 2, "the model has no flag"},
		{"cat --model MODEL config.json", 2, "the model has no flag"},
		{"mount --vfs-cache-mode full MODEL x", 2, "leave it out"},
		{"mount --ondemand hf: x", 2, "did you mean --on-demand?"},
		{"mount --autofs hf: x", 2, "tensorfs mount --on-demand hf: DIR opens models of the Hub"},
		{"mount --allow-org Qwen hf: x", 2, "did you mean --allow-orgs?"},
		{"mount --allow-non-empty MODEL x", 2, "did you mean --nonempty?"},
		{"fetch --include *.gguf hf:a/b", 2, "hf:ORG/NAME:Q4_K_M"},
		{"fetch --revision v1 hf:a/b", 2, "hf:ORG/NAME@REVISION"},
		{"fetch --local-dir x hf:a/b", 2, "export MODEL DIR hf"},
		{"fetch --token x hf:a/b", 2, "HF_TOKEN"},
		{"cat --outtype q8_0 MODEL gguf/model.gguf", 2, "did you mean --gguf-type?"},
		{"cat --outfile x MODEL gguf/model.gguf", 2, "add > FILE"},
		{"export -o out MODEL .", 2, "the directory follows the model"},
		{"ls -R MODEL", 2, "leave it out"},
		{"help quantize", 2, "did you mean tensorfs cat --gguf-type"},
		{"pull --insecure gemma3", 2, "did you mean tensorfs fetch ollama:"},
		{"show --modelfile gemma3", 2, "did you mean tensorfs info"},
		{"rmi x", 2, "tensorfs cache prune"},
		{"login", 2, "HF_TOKEN"},
		{"push x", 2, "ollama push and hf upload do"},
		{"info --context 32_768 MODEL", 2, "--context \"32_768\": want a number of tokens"},
		{"info --context 1e5 MODEL", 2, "want a number of tokens"},
		{"info --context '' MODEL", 2, "want a number of tokens"},
		{"info --context 4k --gpu 50% MODEL", 2, "--gpu \"50%\": want a size like 512M or 8G"},
		{"info --context 4k --gpu 1e9 MODEL", 2, "--gpu \"1e9\": want a size"},
		{"info --context 4k --gpu '24 GB' MODEL", 0, "fit into 24.0 GiB"},
		{"info --context 4k --gpu 24000MB MODEL", 0, "fit into 23.4 GiB"},
		{"info --context 4k --gpu '' MODEL", 2, "want a size"},
		{"cache prune --size '20 GB'", 0, "0 files removed"},
		{"cache prune --size 1.5T", 0, "0 files removed"},
		{"cache prune --size 50%", 2, "want a size"},
		{"info --timeout 30 hf:a/b", 2, "--timeout \"30\": want a time like 5m"},
		{"mount --help=x", 2, "--help \"x\": want true, false or nothing"},
		{"export --jobs all MODEL out .", 2, "--jobs \"all\": want a number"},
		{"mount My Model.gguf m", 2, "put the name in quotes: \"My Model.gguf\""},
		{"cat My Model.gguf config.json", 2, "put the name in quotes: \"My Model.gguf\""},
		{"mount --views f16 f32 MODEL m", 2, "--views f16,f32"},
		{"cat --views F16 MODEL f16/x", 2, "did you mean f16?"},
		{"info *.nothing", 1, "no file matches the pattern"},
		{"umount nothere", 1, "tensorfs status lists the mounts"},
		{"cat MODEL ./config.json", 0, "\"architecture\""},
		{"ls MODEL ./raw/output_norm.weight", 0, "raw/output_norm.weight"},
		{"cat MODEL tokenizer.json", 1, "did you mean hf/tokenizer.json"},
		{"cat MODEL model.gguf", 1, "did you mean gguf/model.gguf?"},
		{"cat MODEL f16/*norm*", 1, "lists what a pattern matches"},
		{"cat MODEL a b", 2, "tensorfs export MODEL DIR PATTERN... writes several"},
		{"cat MODEL /", 2, "lists it"},
		{"cat MODEL .", 2, "lists it"},
		{"cat MODEL ''", 2, "an argument is empty"},
		{"info ''", 2, "an argument is empty"},
		{"export --to-ollama= MODEL", 2, "--to-ollama is empty"},
		{"mount --cache= MODEL x", 2, "--cache is empty"},
		{"export --mlx-bits= MODEL out .", 2, "--mlx-bits is empty"},
		{"export --to-hf-cache --force MODEL", 2, "--to-hf-cache takes a value, and --force follows it"},
		{"cat --gguf-type --pure MODEL gguf/model.gguf", 2, "--gguf-type takes a value, and --pure follows it"},
		{"export --to-lmstudio a/b", 2, "tensorfs export --to-lmstudio PUBLISHER/NAME MODEL"},
		{"export --to-hf-cache=me/x", 2, "--to-hf-cache takes a name and the model"},
		{"export --to-lmstudio --as=b MODEL", 2, "want PUBLISHER/NAME"},
		{"report -o /proc/x.html MODEL", 1, "/proc: nothing can be written there"},
		{"info --lora= MODEL", 2, "name an adapter"},
		{"info --offline hf:/a/b", 1, "write it as hf:a/b"},
		{"info --offline hf:models/a/b", 1, "write it as hf:a/b"},
		{"info hf:acme/tiny/", 1, "name one, such as hf:acme/tiny:Q4_K_M"},
		{"info --offline hf:acme/tiny:Q4KM", 1, "did you mean hf:acme/tiny:Q4_K_M?"},
		{"info HTTPS://huggingface.co/acme/tiny:Q8_0", 0, "tiny-Q8_0.gguf"},
		{"info huggingface.co/acme/tiny", 1, "did you mean hf:acme/tiny?"},
		{"info HF:acme/tiny", 1, "did you mean hf:acme/tiny?"},
		{"info --offline OLLAMA://gemma3", 1, "ollama:gemma3:latest: there is no"},
		{"info FILE:///x/m.gguf", 1, "write it as /x/m.gguf"},
		{"info file:///x/My%20Model.gguf", 1, "write it as /x/My Model.gguf"},
		{"info file://localhost/x/m.gguf", 1, "write it as /x/m.gguf"},
		{"info file:m.gguf", 1, "did you mean m.gguf?"},
		{"info \"m.gguf\"", 1, "no such file"},
		{"info 's3:bucket/key'", 1, "write it as s3://bucket/key"},
		{"info gcs://bucket/m.gguf", 1, "write it as gs://bucket/m.gguf"},
		{"info gs:bucket/m.gguf", 1, "write it as gs://bucket/m.gguf"},
		{"info gs://", 1, "write gs://BUCKET/KEY"},
		{"info az:container/m.gguf", 1, "write it as az://container/m.gguf"},
		{"info abfss://c@account.dfs.core.windows.net/m.gguf", 1, "write it as az://account.dfs.core.windows.net/c/m.gguf"},
		{"info azure://container/m.gguf?sig=x", 1, "write it as az://container/m.gguf?..."},
		{"info az://container/m.gguf", 1, "set it, or write az://ACCOUNT.blob.core.windows.net/CONTAINER/BLOB"},
		{"info modelscope:a/b", 1, "did you mean ms:a/b?"},
		{"list hf:acme", 1, "tensorfs info hf:acme describes it"},
		{"list gemma3", 1, "name a folder with models, ollama:, hf: or lmstudio:"},
		{"ls hf:", 1, "tensorfs list hf: shows their names"},
		{"list .", 0, ".lmstudio/models/a/b/c.gguf"},
		{"cat --gguf-type Q4_K_XL MODEL gguf/model.gguf", 2, "a publisher's own mix"},
		{"cat --gguf-type copy MODEL gguf/model.gguf", 2, "leave it out"},
		{"cat --gguf-type '' MODEL gguf/model.gguf", 2, "--gguf-type is empty"},
		{"cat --gguf-type int4 MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type float16 MODEL gguf/model.gguf", 2, "did you mean F16?"},
		{"cat --gguf-type 'q4 k m' MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type q4_k_m.gguf MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type 15 MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type 8 MODEL gguf/model.gguf", 2, "did you mean Q5_0 or Q8_0?"},
		{"cat --gguf-type q4_k_m --tensor-type (=q8_0 MODEL gguf/model.gguf", 2, "\"(\" is not a regular expression: missing closing ); write a backslash"},
		{"report -o nothere/x.html MODEL", 1, "nothere/x.html: there is no directory nothere"},
		{"report -o Modelfile/x.html MODEL", 1, "Modelfile: it is not a directory"},
		{"report MODEL out.html", 2, "-o out.html names the file"},
		{"export MODEL f16 out", 2, "did you mean tensorfs export MODEL out f16?"},
		{"completion tcsh", 2, "there are completions for bash, fish, powershell and zsh"},
		{"man", 2, "tensorfs help COMMAND prints the same text"},
		{"help man", 2, "tensorfs help COMMAND prints the same text"},
		{"info Modelfile", 1, "name the model of its FROM line: ./m.gguf"},
		{"mount --log journald MODEL x", 2, "--log journald: did you mean journal? For a file of that name write ./journald"},
		{"mount --log sys-log MODEL x", 2, "did you mean syslog?"},
		{"mount --log '' MODEL x", 2, "--log is empty"},
		{"mount --log-file x MODEL x", 2, "did you mean --log?"},
		{"mount --logfile x MODEL x", 2, "did you mean --log?"},
		{"cache prune --size 20 GB", 2, "GB follows --size after a blank; write it without one, as in --size 24GB"},
		{"info --gpu 24 GB --context 4k MODEL", 2, "as in --gpu 24GB"},
		{"info --gpu 24 g --context 4k MODEL", 2, "as in --gpu 24g"},
		{"info --context 4 k MODEL", 2, "as in --context 24k"},
		{"mount --cache-size 20 GiB MODEL x", 2, "as in --cache-size 24GiB"},
		{"cache prune --size 1,5G", 2, "want a size like 512M or 8G"},
		{"cache prune --size 20gigabytes", 2, "want a size like 512M or 8G"},
		{"cache prune --size 20GiB", 0, "0 files removed"},
		{"info --n_ctx 4096 MODEL", 2, "did you mean --context?"},
		{"info --ctx_size 4096 MODEL", 2, "did you mean --context?"},
		{"info --num-ctx 4096 MODEL", 2, "did you mean --context?"},
		{"info --context_length 4096 MODEL", 2, "did you mean --context?"},
		{"info --verbose MODEL", 2, "--json prints all that is known"},
		{"mount --readonly MODEL x", 2, "a mount is always read-only"},
		{"mount --read_only MODEL x", 2, "unknown flag: --read_only"},
		{"mount -o ro,allow_others MODEL x", 2, "did you mean allow_other?"},
		{"export --format gguf MODEL out", 2, "what is written follows the directory: gguf, hf, mlx"},
		{"cat --raw MODEL config.json", 2, "raw/NAME has a tensor as it is stored"},
		{"cache clean --all", 2, "\"clean\" is not a command; did you mean prune?"},
		{"cache clear", 2, "did you mean prune?"},
		{"cache rm x", 2, "did you mean prune?"},
		{"cache ls", 2, "did you mean list?"},
		{"open m.gguf", 2, "did you mean tensorfs mount m.gguf MOUNTPOINT?"},
		{"stop x", 2, "did you mean tensorfs umount x?"},
		{"search gemma", 2, "tensorfs list, which prints the models of this machine"},
		{"update", 2, "comes from a package or from go install"},
		{"uninstall", 2, "comes from a package or from go install"},
		{"rename a b", 2, "tensorfs export --to-ollama NAME a"},
		{"info huggingface:acme/tiny", 1, "did you mean hf:acme/tiny?"},
		{"info hf/acme/tiny", 1, "did you mean hf:acme/tiny?"},
		{"info s3:/bucket/key", 1, "write it as s3://bucket/key"},
		{"info https://", 1, "write it as https://HOST/path/model.gguf"},
		{"info s3://", 1, "write s3://BUCKET/KEY"},
		{"info oci://", 1, "write oci://REGISTRY/REPOSITORY:TAG"},
		{"info ollama:", 1, "tensorfs list ollama: shows their names"},
		{"cat --gguf-type Q4 MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type fp16 MODEL gguf/model.gguf", 2, "did you mean F16?"},
		{"cat --gguf-type 8bit MODEL gguf/model.gguf", 2, "did you mean Q8_0?"},
		{"cat --gguf-type Q1_0 MODEL gguf/model.gguf", 2, "llama-quantize makes it of the file"},
		{"cat --mlx-bits four MODEL mlx/model.safetensors", 2, "want a number, such as 4"},
		{"cat --mlx-bits 7 MODEL mlx/model.safetensors", 2, "MLX's affine has 2, 3, 4, 5, 6 or 8"},
		{"diff --tolerance 1% MODEL MODEL", 2, "want a number such as 0.01"},
		{"fetch --repair MODEL", 2, "--repair takes a name, such as hf:ORG/NAME"},
		{"umount m.gguf", 1, "tensorfs status lists the mounts"},
		{"help nothere", 2, "see tensorfs --help"},
		{"info m.gguf.part", 1, "it is an unfinished download"},
		{"info m.safetensors.incomplete", 1, "it is an unfinished download"},
		{"llama-cli -m m.gguf", 2, "tensorfs runs no models; mount one"},
		{"gguf-dump m.gguf", 2, "did you mean tensorfs info --metadata m.gguf?"},
		{"tensors m.gguf", 2, "did you mean tensorfs ls -l m.gguf raw?"},
		{"layers m.gguf", 2, "did you mean tensorfs ls -l m.gguf raw?"},
		{"config hf:a/b", 2, "did you mean tensorfs cat hf:a/b config.json?"},
		{"size m.gguf", 2, "did you mean tensorfs info m.gguf?"},
		{"histogram m.gguf", 2, "did you mean tensorfs stat m.gguf?"},
		{"lora m.gguf", 2, "did you mean tensorfs mount --lora ADAPTER m.gguf MOUNTPOINT"},
		{"split m.gguf", 2, "llama-gguf-split divides the file of tensorfs export MODEL DIR gguf"},
		{"tokenize m.gguf", 2, "tensorfs runs no models; mount one"},
		{"bench m.gguf", 2, "tensorfs runs no models; mount one"},
		{"--list", 2, "did you mean tensorfs list?"},
		{"--status", 2, "did you mean tensorfs status?"},
		{"info --json --pretty MODEL", 2, "leave it out: --json is indented"},
		{"info gemma3:4b", 1, "did you mean ollama:gemma3:4b?"},
		{"info qwen2.5:0.5b-instruct-q4_K_M", 1, "did you mean ollama:qwen2.5:0.5b-instruct-q4_K_M?"},
		{"info C:\\models\\m.gguf", 1, "in WSL write it as /mnt/c/models/m.gguf"},
		{"info D:/m.gguf", 1, "in WSL write it as /mnt/d/m.gguf"},
		{"info https://hf.co/acme/tiny:Q8_0", 0, "tiny-Q8_0.gguf"},
		{"info https://huggingface.co/acme/tiny/tree/main", 1, "name one, such as hf:acme/tiny:Q4_K_M"},
		{"info --offline hf:acme/tiny@v9", 1, "the cache does not have this revision, only main"},
		{"info --context 8k,16k MODEL", 2, "want a number of tokens"},
		{"info --context 4k --gpu 24GB,24GB MODEL", 2, "want a size like 512M or 8G"},
		{"info --context 4k --gpu none MODEL", 2, "want a size like 512M or 8G"},
		{"info --context 4k --parallel four MODEL", 2, "--parallel \"four\": want a number"},
		{"info --context 4k --flash-attn yes MODEL", 2, "want on, off, auto"},
		{"stat MODEL attn_q", 1, "did you mean blk.0.attn_q.weight"},
		{"stat MODEL layers.99.attention.q.weight", 1, "did you mean layers."},
		{"ls MODEL f15", 1, "did you mean f16"},
		{"ls MODEL raww", 1, "did you mean raw"},
		{"cat MODEL gguf", 1, "gguf is a directory; tensorfs ls MODEL gguf lists it"},
		{"cat MODEL layers.0.attention.q.weight", 1, "did you mean raw/layers.0.attention.q.weight"},
		{"export MODEL out q4_k_m", 2, "q4_k_m is a type; did you mean tensorfs export --gguf-type q4_k_m MODEL out gguf?"},
		{"export MODEL out Q8_0", 2, "did you mean tensorfs export --gguf-type Q8_0 MODEL out gguf?"},
		{"mount x MODEL", 2, "did you mean tensorfs mount MODEL x?"},
		{"mount --rw MODEL x", 2, "a mount is always read-only"},
		{"umount --force x", 2, "-l detaches a mount that is in use"},
		{"umount -f x", 2, "-l detaches a mount that is in use"},
		{"umount MODEL", 1, "no tensorfs is mounted there; tensorfs status lists the mounts"},
		{"serve --port 8080 MODEL", 2, "serve chooses a free port of this machine"},
		{"report MODEL --html", 2, "leave it out: a report is a page for a browser"},
		{"report --open MODEL", 2, "open the file that is printed"},
		{"fetch --force hf:a/b", 2, "--repair fetches again what is broken"},
		{"fetch https://example.com", 1, "write it as https://HOST/path/model.gguf"},
		{"list --all", 2, "leave it out: list prints all models"},
		{"list -l", 2, "leave it out: list prints all models"},
		{"cache size", 2, "did you mean list?"},
		{"cache prune --dry-run", 2, "tensorfs cache list prints what is there"},
		{"cache prune --older 30d", 2, "--size SIZE keeps what was used last"},
	} {
		words := typedWord.FindAllString(c.typed, -1)
		for i, w := range words {
			if words[i] = strings.Trim(w, "'"); w == "MODEL" {
				words[i] = model
			}
		}
		status, stdout, stderr := command(words...)
		if out := stdout + stderr; status != c.status || !strings.Contains(strings.ReplaceAll(out, model, "MODEL"), c.says) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: exit status %d, want %d and %q\n%s", c.typed, status, c.status, c.says, out)
		}
	}
}

// typedWord matches a word as a shell reads it, with quotes around a blank.
var typedWord = regexp.MustCompile(`'[^']*'|\S+`)

// TestOfflineValue holds that a value of the variable that is neither yes nor no is not taken for one of them.
func TestOfflineValue(t *testing.T) {
	for value, want := range map[string]int{"maybe": 2, "2": 2, "no": 0, "0": 0, "Off": 0, "TRUE": 0, "": 0} {
		t.Setenv(offlineEnv, value)
		if status, _, stderr := command("info", q8); status != want || want != 0 && !strings.Contains(stderr, "TENSORFS_OFFLINE="+value+": want 1") {
			t.Errorf("%q: exit status %d, %s", value, status, stderr)
		}
	}
}

// TestTheirFlags holds that what is advised is a flag of some command.
func TestTheirFlags(t *testing.T) {
	for theirs, ours := range theirs.Flags {
		if !slices.ContainsFunc(flagTable, func(r flagRow) bool { name, _, _ := strings.Cut(r.name, ","); return name == ours }) {
			t.Errorf("--%s is said to be --%s, which no command has", theirs, ours)
		}
	}
}
