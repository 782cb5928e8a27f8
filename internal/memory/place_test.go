package memory

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sourceWords are the sources of an operation in a graph of testdata/memory.
var sourceWords = regexp.MustCompile(`w:\S+(?: \(\S+\))*|i\d+:.*?:\d+|\d+`)

// graphOf reads one of llama.cpp's graphs, and the buffer that it took.
func graphOf(t *testing.T, file string) (graph []node, width, want int64) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(unzipped(t, file))), "\n")
	_, compute, _ := strings.Cut(lines[0], "compute ")
	want = number(t, compute)
	ids := map[string]int{}
	for i, line := range lines[2:] {
		f := append(strings.Split(line, "\t"), "")
		if i == 0 {
			first, _, _ := strings.Cut(f[4], ",")
			width = number(t, first)
		}
		op, output := strings.CutSuffix(strings.ToLower(f[1]), "!")
		n := node{op: op, output: output, bytes: number(t, f[3]), view: -1}
		for _, word := range sourceWords.FindAllString(f[6], -1) {
			if word[0] == 'w' {
				continue
			}
			if word[0] == 'i' {
				p := strings.Split(word[1:], ":")
				if _, ok := ids[p[0]]; !ok {
					ids[p[0]] = len(graph)
					graph = append(graph, node{op: p[1], input: true, bytes: number(t, p[len(p)-1]), view: -1})
				}
				word = p[0]
			}
			n.sources = append(n.sources, ids[word])
		}
		switch f[5] {
		case "-":
		case "w": // it shows what is no tensor of the graph
			n.op = use
		default:
			if _, err := strconv.Atoi(f[5]); err != nil {
				t.Fatal(line)
			}
			n.view = ids[f[5]]
		}
		ids[f[0]] = len(graph)
		graph = append(graph, n)
	}
	return graph, width, want
}

// TestPlace: graphs of llama.cpp take what its own allocator took.
func TestPlace(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden, "graphs", "*.gz"))
	if err != nil || len(files) != 34 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		graph, width, want := graphOf(t, file)
		c := &checked{}
		if got := place(c, graph, 4*width*512); got != want || c.bad {
			t.Errorf("%s takes %d, want %d", filepath.Base(file), got, want)
		}
	}
}
