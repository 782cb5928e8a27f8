package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestInfoArchitectures holds the table of classes, as text and as JSON.
func TestInfoArchitectures(t *testing.T) {
	code, out, stderr := command("info", "--architectures")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || stderr != "" || len(lines) != 1+len(architectures.Support()) {
		t.Fatalf("%d %s: %d lines", code, stderr, len(lines))
	}
	for _, want := range []string{"class ", "LlamaForCausalLM ", "NomicBertModel "} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no line begins with %s", want)
		}
	}
	for _, want := range []string{"LlamaForCausalLM llama yes yes yes - -", "Gemma3ForConditionalGeneration gemma3 yes yes yes yes -", "Gemma4ForConditionalGeneration gemma4 yes yes yes yes yes", "VoxtralForConditionalGeneration llama yes yes yes - yes"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("no line says %s", want)
		}
	}
	var rows []classRow
	code, out, _ = command("info", "--architectures", "--json")
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 || len(rows) != len(lines)-1 {
		t.Fatalf("%d %v: %d rows", code, err, len(rows))
	}
	for _, r := range rows {
		for column, made := range r.Made {
			why := 0
			for reason, columns := range r.Reasons {
				if reason != "" && slices.Contains(columns, column) {
					why++
				}
			}
			if made != (why == 0) || why > 1 {
				t.Errorf("%s: %s: %v, for %d reasons", r.Class, column, made, why)
			}
		}
	}
	if code, _, stderr := command("info", "--architectures", q8); code != 2 || !strings.Contains(stderr, "info --architectures takes no model") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestRuntimesTable holds that docs/runtimes.md has the table of architectures as the
// program prints it; -update writes it.
func TestRuntimesTable(t *testing.T) {
	generated(t, "../../docs/runtimes.md", "TestRuntimesTable", architecturesPage())
}

// TestReadmeCounts holds that README.md has the numbers of that table.
func TestReadmeCounts(t *testing.T) {
	made, all := map[string]int{}, 0
	for _, s := range architectures.Support() {
		for _, c := range architectures.SupportColumns {
			if mark(&s, c) == "yes" {
				made[c]++
			}
		}
		all++
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("Of %d classes of config.json, `gguf/` supports %d, `hf/` %d and `mlx/` %d:", all, made["gguf"], made["hf"], made["mlx"])
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("README.md does not say: %s", want)
	}
}

// family finds the letters with which the name of an architecture begins.
var family = regexp.MustCompile(`^(its language model's|[a-z]+)`)

// architecturesPage is the table of architectures as in the documentation: a row for the
// architectures of a family with the same answers, and classes without any directory grouped by
// their reasons.
func architecturesPage() string {
	type group struct {
		family string // how the names of its architectures begin: qwen of qwen2 and qwen3moe
		cells  [5]string
	}
	type row struct {
		group
		architectures, classes []string
	}
	rows, missing := map[group]*row{}, map[string][]string{}
	made, all := map[string]int{}, 0
	for _, s := range architectures.Support() {
		architecture := cmp.Or(s.Architecture, "its language model's")
		g := group{family: family.FindString(architecture)}
		for i, c := range architectures.SupportColumns {
			g.cells[i] = mark(&s, c)
			if g.cells[i] == "yes" {
				made[c]++
			}
		}
		all++
		if len(s.Made()) == 0 {
			why := s.Reasons()[0]
			missing[why] = append(missing[why], s.Class)
			continue
		}
		if rows[g] == nil {
			rows[g] = &row{group: g}
		}
		if r := rows[g]; !slices.Contains(r.architectures, architecture) {
			r.architectures = append(r.architectures, architecture)
		}
		rows[g].classes = append(rows[g].classes, "`"+s.Class+"`")
	}
	for _, r := range rows {
		slices.Sort(r.architectures)
	}
	sorted := slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		return cmp.Or(strings.Compare(a.architectures[0], b.architectures[0]), slices.Compare(b.cells[:], a.cells[:]))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "Of %d classes, nearly all that llama.cpp's converter takes, `gguf/` is made of %d, `hf/` and `mlx/` of the GGUF files of %d and %d, and\n`gguf/mmproj.gguf` of %d vision towers and %d audio towers.\n\n",
		all, made["gguf"], made["hf"], made["mlx"], made["vision"], made["audio"])
	b.WriteString("| architectures | classes | gguf/ | hf/ of GGUF | mlx/ of GGUF | vision in gguf/mmproj.gguf | audio |\n|---|---|---|---|---|---|---|\n")
	for _, r := range sorted {
		pageRow(&b, strings.Join(r.architectures, ", "), strings.Join(r.classes, " "), strings.Join(r.cells[:], " | "))
	}
	b.WriteString("\nNothing is made of these, for the reason before them:\n\n")
	reasons := slices.Collect(maps.Keys(missing))
	slices.SortFunc(reasons, func(a, b string) int {
		if n := len(missing[b]) - len(missing[a]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	var single []string
	for _, why := range reasons {
		if len(missing[why]) == 1 {
			single = append(single, missing[why][0]+": "+why)
			continue
		}
		fmt.Fprintf(&b, "- %s (%d): %s\n", why, len(missing[why]), strings.Join(missing[why], ", "))
	}
	slices.Sort(single)
	fmt.Fprintf(&b, "- other reasons (%d): %s\n", len(single), strings.Join(single, "; "))
	return b.String()
}
