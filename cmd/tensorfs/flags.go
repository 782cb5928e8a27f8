package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/diff"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Marks of flags.
const (
	markOption = "option" // also an option of -o and fstab, there with _ for -
	markFUSE   = "fuse"   // only for --backend fuse
	markRemote = "remote" // help names it, and describes it in the text about models on other machines
	markHidden = "hidden" // not for people
	markRare   = "rare"   // --help only names it: manual pages and docs/commands.md describe it
	markServer = "server" // no option, because it may be given often: the server of a mount gets it all the same

	markElsewhere = "elsewhere" // for another system; no row has it
)

// marksKey is the annotation of a flag that has its marks.
const marksKey = "marks"

// rowKey is the annotation of a flag that has the index of its row in flagTable.
const rowKey = "row"

// flagRow has everything about a flag for help, manual, completion and messages.
type flagRow struct {
	page   string // the command that the row is for, "" for all that have a flag of this name
	name   string // and, after a comma, its short form
	marks  string // see above; before them the system, if the row is only for one
	values cobra.CompletionFunc
	help   string // with the name of its value in back quotes
}

// flagTable has the flags of all commands.
var flagTable = []flagRow{
	// of commands that take a model
	{"", "views", markOption, listOf(append([]string{"default"}, allViews...)), "`VIEWS` to show, with commas between: " + viewList},
	{"", "gguf-type", markOption, cli.CompleteOneOf(ggufTypes), "what llama-quantize calls the `TYPE` of the weights in gguf/, such as q4_k_m or q8_0 " +
		"(default: as stored, or the smallest that is exact)"},
	{"", "pure", markOption, nil, "with --gguf-type, that type for all weights"},
	{"", "tensor-type", markServer, nil, "with --gguf-type, another type for weights whose name in gguf/ the pattern finds: `REGEX=TYPE`, as often as needed"},
	{"", "tensor-types-from", markOption, nil, "give weights in gguf/ the types that they have in `OTHER.gguf`; weights that it lacks have --gguf-type (default: its own)"},
	{"", "imatrix", markOption, nil, "with --gguf-type, `FILE` of llama-imatrix that weighs the columns of each tensor"},
	{"", "requantise", markOption, nil, "with --gguf-type or --mlx-bits, quantise again what is quantised already"},
	{"", "dequantise", markOption, nil, "plain numbers in hf/ and mlx/ of a model that another program packed, such as GPTQ, AWQ or FP8 (default: as stored)"},
	{"", "mlx-bits", markOption, cli.CompleteOneOf([]string{"2", "3", "4", "5", "6", "8"}), "`BITS` of the weights in mlx/, as mlx_lm.convert quantises them (default: as stored)"},
	{"", "mlx-group", markOption, cli.CompleteOneOf([]string{"32", "64", "128"}), "with --mlx-bits, how many weights have a scale (default 64)"},
	{"", "mlx-mode", markOption, cli.CompleteOneOf(mlxModes), "how weights in mlx/ are quantised: affine, mxfp4, mxfp8 or nvfp4"},
	{"", "mlx-recipe", markOption, cli.CompleteOneOf(convert.RecipeNames()), "more bits for some weights in mlx/, as mlx_lm.convert's recipe of this `NAME`, such as mixed_4_6"},
	{"", "mlx-device", "option rare", cli.CompleteOneOf(convert.MLXDevices), "with --mlx-bits, write what MLX writes on a gpu (default) or on a cpu, which differ in some roundings"},
	{"", "set", markOption, nil, "change a key of gguf/: `KEY=VALUE`, KEY=@FILE, or KEY=TYPE:VALUE for a new one; the chat template (tokenizer.chat_template) also in hf/ and mlx/; as often as needed"},
	{"", "unset", markOption, nil, "leave a `KEY` of gguf/ out, as often as needed"},
	{"", "mmproj", markOption, nil, "`FILE` with the towers of a GGUF model, for hf/, or none (default: the only *mmproj*.gguf in its folder)"},
	{"", "lora", markOption, nil, "`ADAPTER[:SCALE]` to apply, a directory of PEFT or mlx-lm, a GGUF file or a name such as hf:ORG/NAME, as often as needed; of diff, to the second model"},
	{"", "i2s", "option rare", cli.CompleteOneOf(views.I2SLayouts), "`ORDER` of BitNet I2_S codes: " + i2sLayouts + " (default: by size)"},
	{"", "follow-links", markOption, nil, "follow symbolic links out of the model's directory where mount refuses them: as root and with allow_other"},
	{"", "offline", "option remote", nil, "ask no other machine; open what is here or in the cache"},
	{"", "remote", "option remote", nil, "ask also where this machine has the model"},
	{"cache", "cache", "", nil, "`DIR` of the cache (default: TENSORFS_CACHE, else one of the user)"},
	{"", "cache", "option remote", nil, "`DIR` that keeps what was read (default: TENSORFS_CACHE, else one of the user)"},
	{"", "cache-size", "option remote", nil, "how large it may be; 0 keeps nothing on the disk (default: a tenth of the disk, at most 100 GB)"},
	{"", "timeout", "option remote", nil, "how long a read waits for its bytes, such as 30s (default 2m)"},
	{"", "connections", "option remote", nil, "how many parts of a model to ask a host for at a time (default 16)"},
	{"", "download", "option remote", nil, "fetch the model first if parts of it cannot be read"},
	{"", "plain-http", "option remote", nil, "allow http:// to public addresses, which protects nothing"},

	// of mount, and some of serve
	{"", "backend", "darwin option", cli.CompleteOneOf(backendNames), "how the system reads the mount: fuse, or nfs without an extension of the kernel"},
	{"", "foreground,f", "", nil, "serve in this process until unmounted"},
	{"", "option,o", "linux", completeOptions, "mount `OPTIONS` as in fstab, separated by commas"},
	{"", "option,o", "darwin", completeOptions, "mount `OPTIONS`, separated by commas"},
	{"", "allow-other", "linux option", nil, "let other users use the mount (unless root, needs user_allow_other in /etc/fuse.conf)"},
	{"", "allow-other", "darwin option", nil, "let other users use the mount (macFUSE asks for an administrator)"},
	{"", "no-passthrough", "linux option fuse", nil, "answer all reads in the server; otherwise root's kernel reads large files itself"},
	{"", "takeover", "linux option", nil, "outlive this server: the mount is left with the keeper at `SOCKET`, or with systemd; takes over what is there"},
	{"", "secrets", markServer, nil, "named pipe (`PIPE`) that gives tokens and keys for models on other machines: a JSON object a line, see help remote"},
	{"", "read-ahead", "linux option fuse", nil, "the kernel's read-ahead in `KIB` (root; default 1024)"},
	{"", "debug", "option fuse", nil, "log every request"},
	{"", "nonempty", markOption, nil, "mount even if something is in MOUNTPOINT, and hide it"},
	{"", "no-mkdir", markOption, nil, "fail if MOUNTPOINT does not exist, instead of making it"},
	{"mount", "as", markOption, cli.CompleteOneOf(library.Forms), "show libraries as a program wants to find models: `FORM` gguf (NAME.gguf: llama-server --models-dir), lmstudio, or hf or mlx (ORG/NAME directories)"},
	{"mount", "on-demand", markOption, nil, "of hf: or ollama:, open any model of the server when a program looks its name up (DIR/ORG/NAME, DIR/MODEL:TAG); listings ask nothing"},
	{"mount", "allow-orgs", markOption, cli.CompleteNothing, "with --on-demand, open models of the server only of these `ORGS`, with commas between, or as often as needed"},
	{"", "max-open", markOption, nil, "of a library, how many models may be open at a time"},
	{"", "idle", markOption, nil, "how long an unused model of a library stays open"},
	{"", "log", "linux option", completeLog, "where the server's messages go: syslog, journal or a `FILE` (default: syslog if there is one)"},
	{"", "log", "darwin option", completeLog, "where the server's messages go: syslog or a `FILE` (default: syslog)"},
	{"", "warm", markOption, cli.CompleteOneOf(append([]string{tree.WarmAll}, allViews...)), "read the model, or what `VIEW` needs of it, into memory once it is mounted"},
	{"", "as-server", markHidden, nil, ""},
	{"", "inside", "hidden server", nil, ""},
	{"", "hand-over", markHidden, nil, ""},
	{"", "read-only,r", markHidden, nil, "accepted: a mount is always read-only"},
	{"mount.tensorfs", "verbose,v", "", nil, "accepted: there is nothing more to say"},
	{"", "verbose,v", markHidden, nil, "accepted: there is nothing more to say"},

	// of single commands
	{"keep", "socket", "", nil, "path of the `SOCKET` that servers name with --takeover"},
	{"umount", "all,a", "", nil, "unmount all mounts except other users'"},
	{"umount", "lazy,l", "linux", nil, "detach now, even if it is in use or its server hangs; users are served until they are done"},
	{"umount", "lazy,l", "darwin", nil, "unmount by force, even if it is in use or its server hangs; open files fail"},
	{"ls", "long,l", "", nil, "print bytes, dtype and shape before the path"},
	{"ls", "human-readable,h", "", nil, "with -l, print sizes as 1.5 MiB"},
	{"ls", "help", "", nil, "help for ls"},    // cobra's own would take -h
	{"ls", "all,a", markHidden, nil, ""},      // fingers type ls -la, and nothing is hidden
	{"tensorfs", "json", markHidden, nil, ""}, // for info
	{"tensorfs", "version,V", "", nil, "print the version"},
	{"cat", "force,f", "", nil, "write even binary data to a terminal"},
	{"export", "jobs,j", "", cli.CompleteNothing, "`NUMBER` of workers (default: one per processor, at most 4)"},
	{"export", "force", "", nil, "replace an earlier export of something else, and files with other content"},
	{"export", "to-ollama", "", cli.CompleteNothing, "write gguf/ into Ollama's store, as the model `NAME[:TAG]`"},
	{"export", "to-lmstudio", "", cli.CompleteNothing, "write gguf/ (with --mlx-bits, or mlx after MODEL: mlx/) into LM Studio's folder, as the model `PUBLISHER/NAME`"},
	{"export", "to-hf-cache", "", cli.CompleteNothing, "write hf/ into the Hugging Face cache, as the model `ORG/NAME`; hf:ORG/NAME itself as it is on the Hub"},
	{"export", "adapter", "", cli.CompleteOneOf([]string{"gguf", "peft"}), "write only the adapter of --lora into DIR, as `FORM` gguf or peft"},
	{"export", "as", markHidden, cli.CompleteNothing, ""}, // the name that --to-... takes
	{"export", "copy", "", nil, "with --to-..., never make a file of the model the store's file too (default: if it cannot be cloned)"},
	{"info", "architectures", "", nil, "print the classes of config.json, and the conversions of each: gguf, hf, mlx, vision, audio"},
	{"info", "metadata", "", nil, "print the keys that `GLOB` matches (all without it), their types and short values: --metadata='general.*'"},
	{"info", "context", "", cli.CompleteNothing, "count the memory that llama.cpp takes for so many `TOKENS`, such as 32k (max: as many as the model was trained with)"},
	{"info", "parallel", "", cli.CompleteNothing, "with --context, the `NUMBER` of sequences that share its tokens (default 1)"},
	{"info", "unified", "", nil, "with --parallel, one cache for all sequences, as llama-server has it by default (with 4)"},
	{"info", "cache-type-k", "", cli.CompleteOneOf(cacheTypeNames), "with --context, `TYPE` of the keys in the cache (default f16)"},
	{"info", "cache-type-v", "", cli.CompleteOneOf(cacheTypeNames), "with --context, `TYPE` of the values in the cache (default f16)"},
	{"info", "flash-attn", "", cli.CompleteOneOf(flashValues), "with --context, flash attention: on, off or auto, which is on (default auto)"},
	{"info", "ubatch", "", cli.CompleteNothing, "with --context, how many `TOKENS` are computed at once (default 512)"},
	{"info", "batch", "", cli.CompleteNothing, "with --context, how many `TOKENS` are given at once (default 2048)"},
	{"info", "swa-full", markRare, nil, "with --context, a cache of the whole context for layers of a window, too"},
	{"info", "outputs", markRare, cli.CompleteOneOf(outputValues), "with --context, `WHOSE` logits: server for one of each sequence, or all, as llama-completion has them (default server)"},
	{"info", "gpu", "", cli.CompleteNothing, "with --context, how many layers fit into a `SIZE` of a GPU, such as 24GiB; it divides whole layers and nothing else"},
	{"fetch", "repair", "", nil, "compare the files that this machine has of the model with the digests of its server, and fetch broken ones again"},
	{"report", "output,o", "", nil, "write the page to `FILE`, or to standard output (-)"},
	{"report", "force", "", nil, "replace a file that exists"},
	{"diff", "all", "", nil, fmt.Sprintf("list all tensors that are not equal (default: the %d worst)", diff.Lines)},
	{"diff", "tolerance", "", nil, "how far close values may be apart, as a part `T` of the greatest (default: by type)"},
	{"cache-prune", "all", "", nil, "remove all files that are not in use"},
	{"cache-prune", "size", "", nil, "remove files until the cache has no more than this much"},

	// of all that print JSON
	{"info", "json", "", nil, "print a JSON object, of a pipeline with its parts; with --architectures an array of objects: class, architecture, made, reasons"},
	{"ls", "json", "", nil, "print a JSON array of objects: path, bytes, dtype, shape, link"},
	{"export", "json", "", nil, "print a JSON object: directory, files, bytes, written, links, unverified; with --to-...: store, name, path, files, template, note, unverified"},
	{"verify", "json", "", nil, "print a JSON object: files, tensors, bytes, findings, overflows, notes, complete; of several models an array of these with model, error"},
	{"diff", "json", "", nil, "print a JSON object: equal, summary, config, notes, tensors (all of them); of two pipelines: equal, parts"},
	{"stat", "json", "", nil, "print a JSON array of objects; one for a NAME has its histogram"},
	{"report", "json", "", nil, "print a JSON object: model, other, facts, layers, kinds, outside, findings, cells"},
	{"list", "json", "", nil, "print a JSON array of objects: name, model, path, format, architecture, parameters, quant, bytes, error"},
	{"fetch", "json", "", nil, "print a JSON object: model, files, bytes, fetched, digests, cache, hugging_face"},
	{"cache-list", "json", "", nil, "print a JSON array of objects: source, bytes, cached, disk, whole, in_use, last_use, digest, converted"},
	{"status", "json", "", nil, "print a JSON array of objects: mountpoint, model, pid, backend, healthy, state, mounted, changed, last_error, " +
		"errors, warnings, unwatched, taken_over, warm; of a library also library, models, open"},

	// of mount.tensorfs, as mount(8) has them
	{"", "sloppy,s", "", nil, "ignore unknown options"},
	{"", "fake,f", "", nil, "check the options and mount nothing"},
	{"", "no-mtab,n", "", nil, "accepted: no /etc/mtab is written in any case"},
	{"", "namespace,N", "", nil, "refused"},
	{"", "options,o", "", nil, "mount options, separated by commas"},
	{"", "types,t", "", nil, "accepted: the type is fuse.tensorfs in any case"},
}

// exclusive are pairs of flags that contradict each other, in every command that has
// both.
var exclusive = [][2]string{{"offline", "remote"}, {"offline", "download"}, {"long", "json"}, {"all", "size"}}

// flags are a command's flags, by name, with the variables for their values, which hold the
// defaults.
type flags map[string]any

// define adds flags to a command. page is "" where other commands have them too.
func (s system) define(c *cobra.Command, page string, values flags) {
	for name, to := range values {
		i, here := s.row(page, name)
		row := &flagTable[i]
		_, short, _ := strings.Cut(row.name, ",")
		cli.AddFlag(c.Flags(), to, name, short, row.help)
		f := c.Flags().Lookup(name)
		marks := strings.Fields(row.marks)
		if !here {
			marks = append(marks, markElsewhere)
		}
		f.Annotations = map[string][]string{marksKey: marks, rowKey: {strconv.Itoa(i)}}
		f.Hidden = !here || marked(f, markHidden)
	}
}

// row returns the index of a flag's row, and whether the flag is for this system.
func (s system) row(page, name string) (row int, here bool) {
	row = -1
	for i := range flagTable {
		r := &flagTable[i]
		if rest, ok := strings.CutPrefix(r.name, name); !ok || rest != "" && rest[0] != ',' || r.page != "" && r.page != page {
			continue
		}
		if on := strings.Fields(r.marks); len(on) == 0 || !slices.Contains(systems, system(on[0])) || on[0] == string(s) {
			return i, true
		}
		row = i
	}
	if row < 0 {
		panic("flagTable has no row for --" + name + " of " + page)
	}
	return row, false
}

// marked reports whether a flag has a mark.
func marked(f *pflag.Flag, mark string) bool { return slices.Contains(f.Annotations[marksKey], mark) }
