package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/describe"
)

// The screen that info prints has at most 60 lines. Of what a model can have any
// number of, it shows so much; --json has all.
const (
	mostTypes    = 10
	wholeLines   = 3 // of each directory
	warningLines = 8 // of all
)

// infoScreen prints info for people.
type infoScreen struct {
	info   *describe.Info
	memory *memoryShown // only on request
	config []tensorfs.Field
	width  int // of the lines
	out    *bufio.Writer
}

func (s *infoScreen) print(stdout io.Writer) error {
	s.out = bufio.NewWriter(stdout)
	s.identity()
	s.dimensions()
	s.context()
	s.types()
	s.views()
	s.warnings()
	return s.out.Flush()
}

// keyWidth is the width of the column of keys.
const keyWidth = 14

// row prints a key and its text, in as many lines as that takes up to rows of 80 columns. Texts
// of the model must come through shown.
func (s *infoScreen) row(key string, rows int, format string, args ...any) {
	if s.width < cli.Columns {
		rows *= (cli.Columns - keyWidth + s.width - keyWidth - 1) / (s.width - keyWidth)
	}
	for _, line := range cli.Wrap(fmt.Sprintf(format, args...), s.width-keyWidth, rows) {
		fmt.Fprintf(s.out, "%-*s%s\n", keyWidth, key, line)
		key = ""
	}
}

// shown makes text of the model fit for a line. No text is looked at beyond what a
// line can show.
func (s *infoScreen) shown(text string) string {
	const enough = 1 << 10
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return cli.Shorten(tensorfs.Printable(text), s.width-keyWidth)
}

// identity prints the model's kind and size.
func (s *infoScreen) identity() {
	info := s.info
	s.line("name", info.Name)
	if describe.Stored().MatchString(info.Model) && info.Model != info.Name {
		s.line("model", info.Model)
	}
	s.line("path", info.Path)
	if info.Revision != "" {
		s.line("revision", info.Revision)
	}
	s.row("format", 1, "%s, %s, %s", info.Format, cli.Plural(info.Files, "file"), cli.Plural(info.MetadataKeys, "metadata key"))
	if info.Unverified != nil {
		s.row("digests", 1, "%s", info.Unverified)
	}
	if a := images.Find(info.Architecture); a != nil {
		s.line("architecture", a.Name+", the denoiser of "+a.Title)
	} else {
		s.line("architecture", info.Architecture)
	}
	s.merge()
	s.adapters()
	switch {
	case info.Tensors == 0 && info.Vocabulary:
		s.row("tensors", 1, "none: vocabulary only, no tensors")
		return
	case info.Tensors == 0:
		s.row("tensors", 1, "no tensors")
		return
	case info.Parameters == nil:
		s.row("parameters", 2, "not known: %d of %s are parts of codes that are not decoded", info.Packed, cli.Plural(info.Tensors, "tensor"))
	default:
		s.row("parameters", 1, "%s in %s", cli.Count(*info.Parameters), cli.Plural(info.Tensors, "tensor"))
	}
	quant := cli.Shorten(tensorfs.Printable(info.Quant), cli.Columns)
	if !info.Quantised && info.Quant != "" {
		quant = "none (" + quant + ")"
	}
	if info.BitsPerWeight != nil {
		quant += fmt.Sprintf(", %.2f bits per weight", *info.BitsPerWeight)
	}
	s.row("quantisation", 2, "%s", quant)
	memory := cli.Size(info.Memory.Stored) + " as stored (mapped)"
	if info.Memory.F16 != nil {
		memory += ", " + cli.Size(*info.Memory.F16) + " as F16"
	}
	s.row("memory", 1, "%s", memory)
}

// line prints a text of the model that is one word, whatever is in it.
func (s *infoScreen) line(key, text string) {
	fmt.Fprintf(s.out, "%-*s%s\n", keyWidth, key, s.shown(text))
}

// said returns a field of the config as text: "" if the model lacks it, or it is 0.
func (s *infoScreen) said(name string) string {
	at := slices.IndexFunc(s.config, func(f tensorfs.Field) bool { return f.Name == name })
	if at < 0 || s.config[at].Assumed || s.config[at].Value == int64(0) {
		return ""
	}
	text := fmt.Sprint(s.config[at].Value)
	if slices.ContainsFunc(s.config, func(f tensorfs.Field) bool { return f.Name == name+"_per_layer" }) {
		text = "up to " + text
	}
	return text
}

// infoRows are the rows of the model's dimensions: each is printed if the model has the
// field, followed by related fields, as formats and fields.
var infoRows = []struct {
	key, field string
	more       [][2]string
}{
	{"layers", "n_layers", [][2]string{{" of width %s", "dim"}, {", feed-forward %s", "ffn_dim"}}},
	{"heads", "n_heads", [][2]string{{" (%s for keys and values)", "n_kv_heads"}, {" of width %s", "head_dim"}}},
	{"experts", "n_experts", [][2]string{{" (%s used)", "n_experts_used"}, {" and %s shared", "n_experts_shared"}, {", feed-forward %s", "expert_ffn_dim"}}},
	{"context", "max_seq_len", nil},
	{"vocabulary", "vocab_size", nil},
}

// dimensions prints the model's config.
func (s *infoScreen) dimensions() {
	for _, r := range infoRows {
		text := s.said(r.field)
		if text == "" {
			continue
		}
		for _, m := range r.more {
			if v := s.said(m[1]); v != "" && !(m[1] == "n_kv_heads" && v == s.said("n_heads")) {
				text += fmt.Sprintf(m[0], v)
			}
		}
		s.row(r.key, 1, "%s", text)
	}
	if s.info.LayoutNote != "" {
		s.row("layout", 2, "%s: %s", s.info.Layout, s.info.LayoutNote)
	}
}

// barWidth is the width of a bar for all bytes.
const barWidth = 16

func (s *infoScreen) types() {
	all := s.info.Types
	if len(all) == 0 {
		return
	}
	t := cli.Table{Right: []bool{false, true, true, true, false}}
	head, bar := fmt.Sprintf("%-*s", keyWidth-2, "types"), barWidth
	if s.width < keyWidth+barWidth+30 {
		head, bar = "types", 0
	}
	t.Add(head, "tensors", "     bytes", "  share", "")
	for _, x := range all[:min(len(all), mostTypes)] {
		share := float64(x.Bytes) / float64(max(s.info.Bytes, 1))
		t.Add(cli.Shorten(tensorfs.Printable(x.Type), s.width), strconv.Itoa(x.Tensors), cli.Size(x.Bytes), fmt.Sprintf("%.1f %%", 100*share), cli.Bar(share, bar))
	}
	fmt.Fprintln(s.out)
	t.Print(s.out, s.width)
	if more := len(all) - mostTypes; more > 0 {
		fmt.Fprintf(s.out, "and %d more; --json has all\n", more)
	}
}

// views prints the views, views with equal numbers in one line, and the directories of
// whole models.
func (s *infoScreen) views() {
	fmt.Fprintln(s.out)
	key, why := "views", " (see index.json)"
	for i, v := range s.info.Views {
		same := func(w describe.ViewCount) bool { return w.Files == v.Files && w.LeftOut == v.LeftOut }
		if s.info.Tensors == 0 || slices.ContainsFunc(s.info.Views[:i], same) {
			continue
		}
		var dirs []string
		for _, w := range s.info.Views[i:] {
			if same(w) {
				dirs = append(dirs, w.Name+"/")
			}
		}
		text := strings.Join(dirs, ", ") + ": "
		switch {
		case v.Files == 0:
			text += "none"
		case len(dirs) > 1:
			text += cli.Plural(v.Files, "file") + " each"
		default:
			text += cli.Plural(v.Files, "file")
		}
		if v.LeftOut > 0 {
			text += fmt.Sprintf(", %d left out%s", v.LeftOut, why)
			why = ""
		}
		s.row(key, 2, "%s", text)
		key = ""
	}
	key = "whole models"
	for _, x := range s.info.Whole {
		s.row(key, wholeLines, "%s/: %s", x.Name, x.Line())
		key = ""
		for _, note := range x.Files.Mix {
			s.row("", wholeLines, "%s", note)
		}
	}
}

func (s *infoScreen) warnings() {
	left := warningLines
	for i, warning := range s.info.Warnings {
		if i == 0 {
			fmt.Fprintln(s.out, "\nwarnings")
		}
		if left == 0 {
			fmt.Fprintf(s.out, "  and %d more; --json has all\n", len(s.info.Warnings)-i)
			break
		}
		lines := cli.Wrap(tensorfs.OneLine(warning), s.width-4, min(left, wholeLines))
		left -= len(lines)
		for j, line := range lines {
			fmt.Fprintf(s.out, "%s%s\n", map[bool]string{true: "  ", false: "    "}[j == 0], line)
		}
	}
}
