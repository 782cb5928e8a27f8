package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/near"
)

// verbs are commands of other programs, and what does it here. WHAT stands for the word
// that follows, or for its own text in capitals.
var verbs = []struct{ words, does, with string }{
	{"show inspect dump describe view metadata", "tensorfs info WHAT", "MODEL"},
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
	{"rm remove delete", "tensorfs cache prune, which only removes what tensorfs fetched itself", ""},
	{"create", "tensorfs export --to-ollama NAME WHAT", "MODEL"},
	{"merge", "tensorfs mount --lora ADAPTER WHAT MOUNTPOINT, or a recipe of mergekit in place of the model", "MODEL"},
}

// runners are commands of other programs that run models.
const runners = "run chat generate complete"

// theirVerb says how a command of another program is called here, or "".
func theirVerb(word string, args []string) string {
	if slices.Contains(strings.Fields(runners), word) {
		return "tensorfs runs no models; mount one, and name its gguf/model.gguf to what does: llama-server -m MOUNTPOINT/gguf/model.gguf"
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
		return "did you mean " + strings.Replace(does, "WHAT", printableName(with), 1) + "?"
	}
	return ""
}

// theirFlags maps a flag of another program to the flag of tensorfs that means the same.
var theirFlags = map[string]string{
	"ctx-size": "context", "ctx": "context", "n-ctx": "context", "context-length": "context", "max-model-len": "context", "c": "context",
	"n-parallel": "parallel", "np": "parallel", "ctk": "cache-type-k", "ctv": "cache-type-v", "fa": "flash-attn", "batch-size": "batch", "ubatch-size": "ubatch",
	"q-bits": "mlx-bits", "bits": "mlx-bits", "q-group-size": "mlx-group", "q-mode": "mlx-mode", "outtype": "gguf-type", "quant": "gguf-type", "quantize": "gguf-type",
	"adapter": "lora", "adapter-path": "lora", "override-kv": "set", "metadata": "set", "local-files-only": "offline",
}

// background are flags of other programs for what mount does unasked.
var background = []string{"daemon", "background", "detach"}

// unknownFlag adds to the error of a flag that a command does not have which one may be
// meant. It is nil for other errors.
func unknownFlag(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return nil
	}
	name := missing.GetSpecifiedName()
	if name == "o" && c.Flags().Lookup("output") == nil && c.Name() == "cat" {
		return usageError{fmt.Errorf("%w; tensorfs cat writes to standard output: add > FILE", err)}
	}
	if c.Name() == "mount" && slices.Contains(background, name) {
		return usageError{fmt.Errorf("%w; leave it out: mount returns as soon as the files are there, and --foreground stays", err)}
	}
	if ours := theirFlags[name]; ours != "" && c.Flags().Lookup(ours) != nil {
		return usageError{fmt.Errorf("%w; did you mean --%s?", err, ours)}
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	names = near.Names(name, names, 3)
	if len(name) < 2 || len(names) == 0 {
		return nil
	}
	for i := range names {
		names[i] = "--" + names[i]
	}
	return usageError{fmt.Errorf("%w; %s", err, near.Question(names))}
}

// emptyFlag returns an error if a flag was given an empty value, which is often a shell
// variable that is not set.
func emptyFlag(set *pflag.FlagSet) (err error) {
	set.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = usageError{fmt.Errorf("--%s is empty; leave it out, or give it a value", f.Name)}
		}
	})
	return err
}

// tokens is a flag like 8192, 32k or 128K.
type tokens int

var _ pflag.Value = (*tokens)(nil)

// String returns the number.
func (t *tokens) String() string { return strconv.Itoa(int(*t)) }

// Type names the value in help texts.
func (t *tokens) Type() string { return "TOKENS" }

// Set reads a number of tokens such as 8192, 4,096, 32k or 1m, where k is 1024 and m its
// square; max is 0, the context that the model was trained with.
func (t *tokens) Set(s string) error {
	if strings.EqualFold(s, "max") {
		*t = 0
		return nil
	}
	digits, factor := s, 1
	if n := len(s); n > 0 {
		if i := strings.IndexByte("kmKM", s[n-1]); i >= 0 {
			digits, factor = s[:n-1], 1<<(10*(i%2+1))
		}
	}
	if groups := strings.Split(digits, ","); len(groups) > 1 {
		if !slices.ContainsFunc(groups[1:], func(g string) bool { return len(g) != 3 }) && len(groups[0]) <= 3 {
			digits = strings.Join(groups, "")
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n > (1<<31-1)/uint64(factor) {
		return errors.New("want a number of tokens, such as 8192 or 32k; 0 is as many as the model was trained with")
	}
	*t = tokens(int(n) * factor)
	return nil
}
