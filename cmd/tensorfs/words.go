package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
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

// theirVerb names the equivalent of another program's command, or "".
func theirVerb(word string, args []string) string {
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
		if formats.IsName(with) {
			does = strings.Replace(does, "ollama:WHAT", "WHAT", 1)
		}
		return "did you mean " + strings.Replace(does, "WHAT", conceal.Printable(with), 1) + "?"
	}
	return ""
}

// theirFlags maps a flag of another program to the flag of tensorfs that means the same.
var theirFlags = map[string]string{
	"ctx-size": "context", "ctx": "context", "n-ctx": "context", "context-length": "context", "num-ctx": "context", "context-size": "context", "max-model-len": "context", "c": "context",
	"n-parallel": "parallel", "np": "parallel", "ctk": "cache-type-k", "ctv": "cache-type-v", "fa": "flash-attn", "batch-size": "batch", "ubatch-size": "ubatch",
	"q-bits": "mlx-bits", "bits": "mlx-bits", "q-group-size": "mlx-group", "q-mode": "mlx-mode", "outtype": "gguf-type", "quant": "gguf-type", "quantize": "gguf-type",
	"dtype": "gguf-type", "ftype": "gguf-type", "qtype": "gguf-type", "q": "mlx-bits", "cache-dir": "cache", "vfs-cache-max-size": "cache-size",
	"allow-non-empty": "nonempty", "allow-nonempty": "nonempty", "imatrix-file": "imatrix", "types-from": "tensor-types-from", "tensor-type-from": "tensor-types-from", "tensor-types": "tensor-type", "vram": "gpu", "gpu-memory": "gpu", "threads": "jobs", "overwrite": "force", "yes": "force", "y": "force",
	"adapter": "lora", "adapter-path": "lora", "override-kv": "set", "log-file": "log", "logfile": "log", "log-to": "log", "local-files-only": "offline",
}

// theirWays are flags of other programs for what is done here in another way. command is the one that the advice is
// for, "" for all.
var theirWays = []struct{ command, flags, advice string }{
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

// unknownFlag adds to the error of an unknown flag which one may be meant. Other errors give
// nil.
func unknownFlag(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return nil
	}
	name := strings.ReplaceAll(missing.GetSpecifiedName(), "_", "-")
	if words := c.Flags().Args(); c.HasParent() && c.HasSubCommands() && len(words) > 0 {
		return notACommand(c, words[0])
	}
	if words := c.Flags().Args(); !c.HasParent() && len(words) > 0 { // of a command that is not there
		if advice := theirVerb(words[0], words[1:]); advice != "" {
			return cli.UsageError{Err: fmt.Errorf("%q is not a command; %s", words[0], advice)}
		}
	} else if !c.HasParent() {
		for _, other := range c.Commands() {
			if other.Name() == name && !other.Hidden {
				return cli.UsageError{Err: fmt.Errorf("%w; did you mean %s?", err, other.CommandPath())}
			}
		}
	}
	for _, way := range theirWays {
		if (way.command == "" && c.HasParent() || way.command == c.Name()) && slices.Contains(strings.Fields(way.flags), name) {
			return cli.UsageError{Err: fmt.Errorf("%w; %s", err, way.advice)}
		}
	}
	if ours := theirFlags[name]; ours != "" && c.Flags().Lookup(ours) != nil {
		return cli.UsageError{Err: fmt.Errorf("%w; did you mean --%s?", err, ours)}
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if len(name) < 2 {
		return nil
	}
	if names = near.Names(name, names, 3); len(names) == 0 {
		return elsewhereFlag(c, name, err)
	}
	for i := range names {
		names[i] = "--" + names[i]
	}
	return cli.UsageError{Err: fmt.Errorf("%w; %s", err, near.Question(names))}
}

// elsewhereFlag returns the error of a flag that only other commands have, nil if none has it.
func elsewhereFlag(c *cobra.Command, name string, err error) error {
	root := c.Root()
	if near.Names(name, []string{"version"}, 1) != nil {
		return cli.UsageError{Err: fmt.Errorf("%w; did you mean %s --version?", err, root.Name())}
	}
	var have []string
	for _, other := range root.Commands() {
		if f := other.Flags().Lookup(name); f != nil && !f.Hidden {
			have = append(have, other.CommandPath())
		}
	}
	switch n := len(have); {
	case n == 0:
		return nil
	case n > 3:
		have = have[:3]
	}
	return cli.UsageError{Err: fmt.Errorf("%w; %s has no such flag, %s does", err, c.CommandPath(), near.Either(have))}
}

// misplaced explains too many arguments: a name with a blank that lost its quotes, or views
// after --views. It is "" if neither fits.
func misplaced(set *pflag.FlagSet, args []string) string {
	for i := range args {
		for end := i + 2; end <= min(len(args), i+maxBlanks); end++ {
			name := strings.Join(args[i:end], " ")
			if _, err := os.Lstat(name); err == nil {
				return fmt.Sprintf("put the name in quotes: %s", tensorfs.Quote(name))
			}
		}
	}
	if f := set.Lookup("views"); f != nil && f.Changed {
		named := []string{f.Value.String()}
		for _, a := range args {
			if slices.Contains(allViews, a) {
				named = append(named, a)
			}
		}
		if len(named) > 1 {
			return "views have commas between them: --views " + strings.Join(named, ",")
		}
	}
	return ""
}

// maxBlanks bounds the words that are tried as one name.
const maxBlanks = 6
