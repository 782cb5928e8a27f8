package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// The fields of CycloneDX 1.5 that a list of Go modules has.
type (
	document struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type        string     `json:"type"`
		Ref         string     `json:"bom-ref"`
		Name        string     `json:"name"`
		Version     string     `json:"version"`
		Description string     `json:"description,omitempty"`
		Licenses    []any      `json:"licenses,omitempty"`
		URL         string     `json:"purl"`
		Properties  []property `json:"properties,omitempty"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// certificates is the module whose certificates are in the image.
const certificates = "golang.org/x/crypto/x509roots/fallback"

// sbom lists what is in programs, as they say themselves: the modules, and Go's library.
func sbom(f facts, to string, programs []string) error {
	found := map[string]component{}
	add := func(name, version, sum, description string) {
		c := component{Type: "library", Name: name, Version: version, Description: description, URL: "pkg:golang/" + name + "@" + version}
		c.Ref = c.URL
		if sum != "" {
			c.Properties = []property{{"go:sum", sum}}
		}
		found[c.Ref] = c
	}
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		add("std", strings.TrimPrefix(info.GoVersion, "go"), "", "the standard library and the runtime of Go")
		for _, m := range info.Deps {
			if m.Path == module {
				continue // the driver has it from beside itself
			}
			if m.Replace != nil {
				return fmt.Errorf("%s: %s is replaced, by what nobody else has", path, m.Path)
			}
			add(m.Path, m.Version, m.Sum, "")
		}
	}
	self, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this program does not say of which modules it is made")
	}
	for _, m := range self.Deps {
		if m.Path == certificates {
			add(m.Path, m.Version, m.Sum, "the certificates in the container image")
		}
	}
	main := component{
		Type: "application", Name: module, Version: f.goVersion, Description: "Show the tensors of a model as files", URL: "pkg:golang/" + module + "@" + f.goVersion,
		Licenses: []any{map[string]any{"license": map[string]string{"id": "Apache-2.0"}}}, Properties: []property{{"vcs.revision", f.commit}},
	}
	main.Ref = main.URL
	d := document{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{f.date.Format("2006-01-02T15:04:05Z"), main}}
	d.Components = slices.SortedFunc(maps.Values(found), func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	contains := dependency{Ref: main.Ref}
	for _, c := range d.Components {
		contains.DependsOn = append(contains.DependsOn, c.Ref)
	}
	d.Dependencies = []dependency{contains}
	// The number follows from all else: a list with other content has another one.
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	id := sha256.Sum256(text)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID whose bits are its maker's, RFC 9562
	d.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	if text, err = json.MarshalIndent(d, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o644)
}
