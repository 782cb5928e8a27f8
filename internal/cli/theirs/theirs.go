// Package theirs knows the words of other programs for what tensorfs does: their commands, their
// flags, and what a user does here.
package theirs

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/internal/conceal"
)

// verbs maps commands of other programs to tensorfs's. WHAT is replaced by the word that
// follows, or by its own text in capitals.
var verbs = []struct{ words, does, with string }{
	{"show inspect dump describe view size du memory", "tensorfs info WHAT", "MODEL"},
	{"metadata keys gguf-dump gguf_dump", "tensorfs info --metadata WHAT", "MODEL"},
	{"tensors layers weights", "tensorfs ls -l WHAT raw", "MODEL"},
	{"config", "tensorfs cat WHAT config.json", "MODEL"},
	{"stats statistics histogram", "tensorfs stat WHAT", "MODEL"},
	{"html plot", "tensorfs report WHAT", "MODEL"},
	{"convert quantize quantise", "tensorfs cat --gguf-type q4_k_m WHAT gguf/model.gguf > model.gguf", "MODEL"},
	{"pull", "tensorfs fetch ollama:WHAT", "NAME"},
	{"download get clone", "tensorfs fetch WHAT", "hf:ORG/NAME"},
	{"copy cp", "tensorfs export WHAT DIR", "MODEL"},
	{"mnt attach", "tensorfs mount WHAT MOUNTPOINT", "MODEL"},
	{"detach fusermount", "tensorfs umount WHAT", "MOUNTPOINT"},
	{"ps", "tensorfs status", ""},
	{"tree", "tensorfs ls WHAT", "MODEL"},
	{"compare cmp", "tensorfs diff WHAT OTHER", "MODEL"},
	{"check", "tensorfs verify WHAT", "MODEL"},
	{"rm rmi remove delete", "tensorfs cache prune, which only removes what tensorfs fetched itself", ""},
	{"open start load", "tensorfs mount WHAT MOUNTPOINT", "MODEL"},
	{"stop eject", "tensorfs umount WHAT", "MOUNTPOINT"},
	{"search find", "tensorfs list, which prints the models of this machine", ""},
	{"rename mv", "tensorfs export --to-ollama NAME WHAT, which gives a model another name there", "MODEL"},
	{"create", "tensorfs export --to-ollama NAME WHAT", "MODEL"},
	{"merge lora", "tensorfs mount --lora ADAPTER WHAT MOUNTPOINT, or a mergekit recipe as the model", "MODEL"},
}

// refused are commands of other programs that nothing does here, and what to do.
var refused = []struct{ words, advice string }{
	{"run chat generate complete", "tensorfs runs no models; mount one, and name its gguf/model.gguf to what does: llama-server -m MOUNTPOINT/gguf/model.gguf"},
	{"bench benchmark perplexity eval tokenize embed llama-cli llama-server llama-bench", "tensorfs runs no models; mount one, and name its gguf/model.gguf to what does"},
	{"split gguf-split", "tensorfs writes whole files; llama-gguf-split divides the file of tensorfs export MODEL DIR gguf"},
	{"push upload", "tensorfs writes nothing to other machines; ollama push and hf upload do"},
	{"login logout auth whoami signin", "tensorfs has no login; tokens come from HF_TOKEN or hf auth login (see tensorfs help remote)"},
	{"update upgrade uninstall install", "tensorfs comes from a package or from go install, which update and remove it"},
	{"man manpage manual", "manual pages come with the packages; tensorfs help COMMAND prints the same text"},
	{"train finetune fine-tune", "tensorfs trains no models; it shows what training needs as files"},
}

// Verb names the equivalent of a command of another program, or "". isName reports whether a word is
// a name of a model with its store.
func Verb(word string, args []string, isName func(string) bool) string {
	for _, r := range refused {
		if slices.Contains(strings.Fields(r.words), word) {
			return r.advice
		}
	}
	for _, v := range verbs {
		if !slices.Contains(strings.Fields(v.words), word) {
			continue
		}
		with := v.with
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			with = args[0]
		}
		does := v.does
		if isName(with) {
			does = strings.Replace(does, "ollama:WHAT", "WHAT", 1)
		}
		return "did you mean " + strings.Replace(does, "WHAT", conceal.Printable(with), 1) + "?"
	}
	return ""
}

// Flags maps a flag of another program to the flag of tensorfs that means the same.
var Flags = map[string]string{
	"ctx-size": "context", "ctx": "context", "n-ctx": "context", "context-length": "context", "num-ctx": "context", "context-size": "context", "max-model-len": "context", "c": "context",
	"n-parallel": "parallel", "np": "parallel", "ctk": "cache-type-k", "ctv": "cache-type-v", "fa": "flash-attn", "batch-size": "batch", "ubatch-size": "ubatch",
	"q-bits": "mlx-bits", "bits": "mlx-bits", "q-group-size": "mlx-group", "q-mode": "mlx-mode", "outtype": "gguf-type", "quant": "gguf-type", "quantize": "gguf-type",
	"dtype": "gguf-type", "ftype": "gguf-type", "qtype": "gguf-type", "q": "mlx-bits", "cache-dir": "cache", "vfs-cache-max-size": "cache-size",
	"allow-non-empty": "nonempty", "allow-nonempty": "nonempty", "imatrix-file": "imatrix", "types-from": "tensor-types-from", "tensor-type-from": "tensor-types-from", "tensor-types": "tensor-type", "vram": "gpu", "gpu-memory": "gpu", "threads": "jobs", "overwrite": "force", "yes": "force", "y": "force",
	"adapter": "lora", "adapter-path": "lora", "override-kv": "set", "log-file": "log", "logfile": "log", "log-to": "log", "local-files-only": "offline",
}

// ways are flags of other programs for what is done here in another way. command is the one that the advice is
// for, "" for all.
var ways = []struct{ command, flags, advice string }{
	{"mount", "daemon background detach", "leave it out: mount returns as soon as the files are there, and --foreground stays"},
	{"mount", "vfs-cache-mode dir-cache-time poll-interval attr-timeout buffer-size", "leave it out: files of a model do not change, and the kernel keeps what was read"},
	{"mount", "autofs automount auto-download", "tensorfs mount --on-demand hf: DIR opens models of the Hub by their paths"},
	{"mount", "readonly ro rw", "leave it out: a mount is always read-only"},
	{"export", "format type", "what is written follows the directory: gguf, hf, mlx, npy, or any pattern of tensorfs ls MODEL"},
	{"cat", "raw", "leave it out, and name the file: raw/NAME has a tensor as it is stored"},
	{"cat", "o output outfile", "tensorfs cat writes to standard output: add > FILE"},
	{"export", "o output outfile output-dir out", "the directory follows the model: tensorfs export MODEL DIR PATTERN..."},
	{"export", "name", "the name follows the store: --to-ollama NAME, --to-lmstudio PUBLISHER/NAME or --to-hf-cache ORG/NAME"},
	{"fetch", "include exclude allow-patterns", "a part of a repository is named after it: hf:ORG/NAME:Q4_K_M or hf:ORG/NAME/FILE"},
	{"fetch", "local-dir local_dir d output-dir", "what is fetched is in the caches; tensorfs export MODEL DIR hf writes a directory of it"},
	{"ls", "R r recursive", "leave it out: ls lists all that is below"},
	{"verify", "manifest check in", "in a mount, sha256sum writes and checks lists of digests: cd MOUNTPOINT && sha256sum raw/* > LIST, and sha256sum -c LIST"},
	{"fetch", "force force-download", "--repair fetches again what is broken"},
	{"list", "all a long l", "leave it out: list prints all models and what it knows of them"},
	{"umount", "force f", "-l detaches a mount that is in use"},
	{"report", "html", "leave it out: a report is a page for a browser"},
	{"report", "open browser", "leave it out, and open the file that is printed"},
	{"serve", "port p host", "serve chooses a free port of this machine, and prints its address"},
	{"prune", "dry-run n", "tensorfs cache list prints what is there, and removes nothing"},
	{"prune", "older older-than age max-age", "--size SIZE keeps what was used last"},
	{"", "pretty indent", "leave it out: --json is indented"},
	{"", "revision branch", "it is a part of the name: hf:ORG/NAME@REVISION"},
	{"", "token hf-token", "tokens come from HF_TOKEN or hf auth login, so that no list of processes shows them"},
	{"", "repo-type", "leave it out: models are what is read"},
	{"", "m model hf-path model-path model-id hf-repo hf hf-file", "the model has no flag: its name follows the command"},
	{"info", "verbose v", "--json prints all that is known, --metadata the keys"},
	{"info", "ngl gpu-layers n-gpu-layers n", "--gpu SIZE with --context prints how many layers fit"},
	{"", "ngl gpu-layers n-gpu-layers", "tensorfs runs no models; info --context TOKENS --gpu SIZE prints how many layers fit"},
}

// Way is what a user of a command here does who gave it a flag of another program, "" if nothing is known.
// below tells that the command is not the program itself, which has few flags.
func Way(command string, below bool, flag string) string {
	for _, w := range ways {
		if (w.command == "" && below || w.command == command) && slices.Contains(strings.Fields(w.flags), flag) {
			return w.advice
		}
	}
	return ""
}
