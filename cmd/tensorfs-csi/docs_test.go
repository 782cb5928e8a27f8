package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPage holds the tables of docs/kubernetes.md to the driver's.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, want := range map[string][]string{
		"Attributes": slices.Sorted(maps.Keys(attributeTable)),
		"Secrets":    slices.Sorted(slices.Values(secretNames)),
		"Metrics":    metricNames(),
	} {
		if got := firstColumn(string(page), heading); !slices.Equal(got, want) {
			t.Errorf("the table below %q has %q, want %q", heading, got, want)
		}
	}
	const example = "deploy/examples/pod-llama-server.yaml"
	_, shown, _ := strings.Cut(string(page), "\n```yaml\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	text, err := os.ReadFile(example)
	if _, body, _ := strings.Cut(string(text), "\n"); err != nil || body != shown { // its first line describes it
		t.Errorf("the page shows another pod than %s: %v", example, err)
	}
}

// metricNames are the names of the driver's own metrics, sorted.
func metricNames() []string {
	f := &fleet{counters: newCounters()}
	descs := make(chan *prometheus.Desc)
	go func() {
		f.registry().Describe(descs)
		close(descs)
	}()
	var names []string
	for d := range descs {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		if name, _, _ = strings.Cut(name, `"`); strings.HasPrefix(name, "tensorfs_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestArguments holds that the driver takes the arguments of its pods.
func TestArguments(t *testing.T) {
	for _, file := range []string{"deploy/daemonset.yaml", "deploy/controller.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, found := range regexp.MustCompile(`[ \[](--[a-z][a-z-]*(?:=[^\s,\]]+)?)`).FindAllStringSubmatch(string(text), -1) {
			if found[1] != "--csi-address=/csi/csi.sock" { // the provisioner's
				args = append(args, found[1])
			}
		}
		if len(args) < 4 {
			t.Errorf("%s has the arguments %q", file, args)
		}
		if err := new(options).flags().Parse(args); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// firstColumn returns the names in backquotes in the first column of the table below a heading, sorted.
func firstColumn(page, heading string) (names []string) {
	_, below, _ := strings.Cut(page, "\n## "+heading+"\n")
	below, _, _ = strings.Cut(below, "\n## ")
	for line := range strings.Lines(below) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				names = append(names, code[1])
			}
		}
	}
	slices.Sort(names)
	return names
}
