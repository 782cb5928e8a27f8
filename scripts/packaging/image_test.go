package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// descriptor is the description of a blob in an OCI layout.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
	Platform  struct {
		OS, Architecture string
	} `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

// tryImage holds that all blobs are what their descriptors say and that each is in use,
// unpacks every platform's layer, and runs tensorfs in it as its root directory. The entry
// point is of that name.
func tryImage(entryPoint string) func(t *testing.T, _, file string) {
	return func(t *testing.T, _, file string) { tryLayout(t, entryPoint, file) }
}

func tryLayout(t *testing.T, entryPoint, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	layout := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if layout[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(layout[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		delete(layout, name)
	}
	blob := func(d descriptor, mediaType string) string {
		t.Helper()
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		b, ok := layout[name]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(b)); !ok || sum != d.Digest || len(b) != d.Size || d.MediaType != "application/vnd.oci.image."+mediaType {
			t.Fatalf("%+v: there are %d bytes of %s", d, len(b), sum)
		}
		return name
	}
	var version struct{ ImageLayoutVersion string }
	if take("oci-layout", &version); version.ImageLayoutVersion != "1.0.0" {
		t.Errorf("it is a layout of version %q", version.ImageLayoutVersion)
	}
	type index struct{ Manifests []descriptor }
	var entry, platforms index
	take("index.json", &entry)
	if len(entry.Manifests) != 1 || entry.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3-rc1" {
		t.Fatalf("%+v", entry)
	}
	take(blob(entry.Manifests[0], "index.v1+json"), &platforms)
	if want := map[bool]int{true: 2, false: 1}[*all]; len(platforms.Manifests) != want {
		t.Errorf("it is for %d platforms, want %d", len(platforms.Manifests), want)
	}
	for _, p := range platforms.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		take(blob(p, "manifest.v1+json"), &manifest)
		var config struct {
			OS, Architecture string
			Config           struct{ Entrypoint, Cmd, Env []string }
			RootFS           struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		take(blob(manifest.Config, "config.v1+json"), &config)
		if config.OS != p.Platform.OS || config.Architecture != p.Platform.Architecture || len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
			t.Fatalf("%+v, %+v, %+v", p, manifest, config)
		}
		name := blob(manifest.Layers[0], "layer.v1.tar+gzip")
		z, err := gzip.NewReader(bytes.NewReader(layout[name]))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(plain)); err != nil || sum != config.RootFS.DiffIDs[0] {
			t.Errorf("the layer is %s, the configuration says %s: %v", sum, config.RootFS.DiffIDs[0], err)
		}
		delete(layout, name)
		root := t.TempDir()
		untarPlain(t, bytes.NewReader(plain), root)
		if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/usr/bin/"+entryPoint {
			t.Errorf("it starts %q", got)
		}
		const program = "/usr/bin/tensorfs"
		for _, name := range []string{program, "/usr/bin/" + entryPoint} {
			if system, arch := machine(t, filepath.Join(root, name)); system != config.OS || arch != config.Architecture {
				t.Errorf("%s is for %s/%s", name, system, arch)
			}
		}
		run(t, filepath.Join(root, program), packaged)
		roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
		if n := bytes.Count(roots, []byte("BEGIN CERTIFICATE")); err != nil || n < 50 || !x509.NewCertPool().AppendCertsFromPEM(roots) {
			t.Errorf("%d certificates: %v", n, err)
		}
		inside(t, root, config.Config.Env, []string{program, "info", "/mnt/model.gguf"}, config.OS, config.Architecture)
	}
	for name := range layout {
		t.Errorf("nothing names %s", name)
	}
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Log("NOT TESTED: the image with skopeo, which is not here")
		return
	}
	output(t, "skopeo", "copy", "-q", "--insecure-policy", "--all", "oci-archive:"+file, "dir:"+filepath.Join(t.TempDir(), "copy"))
}

// inside runs the image's program with nothing but the image to see.
func inside(t *testing.T, root string, env, args []string, system, arch string) {
	t.Helper()
	if before, ok := runner(system, arch); !ok || before != nil || os.Geteuid() != 0 {
		t.Logf("NOT TESTED: the image for %s/%s as a root directory, which takes root and that machine", system, arch)
		return
	}
	b, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, "mnt/model.gguf", 0o644, b)
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env, c.SysProcAttr = "/", env, &syscall.SysProcAttr{Chroot: root}
	if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("Llama")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// tryParts holds that the list is CycloneDX and names the modules of every program.
func tryParts(t *testing.T, dist, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type component struct {
		Type, Name, Version, Purl string
		Ref                       string `json:"bom-ref"`
	}
	var d struct {
		BomFormat, SpecVersion, SerialNumber string
		Version                              int
		Metadata                             struct{ Component component }
		Components                           []component
		Dependencies                         []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.BomFormat != "CycloneDX" || d.SpecVersion != "1.5" || d.Version != 1 ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(d.SerialNumber) {
		t.Errorf("%+v", d)
	}
	if c := d.Metadata.Component; c.Type != "application" || c.Purl != "pkg:golang/github.com/tensorfs/tensorfs@v1.2.3-rc1" || len(d.Dependencies) != 1 || d.Dependencies[0].Ref != c.Ref {
		t.Errorf("%+v, %+v", c, d.Dependencies)
	}
	has := map[string]bool{}
	for _, c := range d.Components {
		if c.Type != "library" || c.Purl != "pkg:golang/"+c.Name+"@"+c.Version || c.Ref == "" || has[c.Purl] {
			t.Errorf("%+v", c)
		}
		has[c.Purl] = true
	}
	if len(d.Dependencies) == 1 && len(d.Dependencies[0].DependsOn) != len(d.Components) {
		t.Errorf("%d of %d components are named as its parts", len(d.Dependencies[0].DependsOn), len(d.Components))
	}
	programs, err := filepath.Glob(filepath.Join(dist, "tensorfs-*-*[0-9]")) // names that end in amd64 or arm64
	if err != nil || len(programs) == 0 {
		t.Fatal(programs, err)
	}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.Deps {
			if !has["pkg:golang/"+m.Path+"@"+m.Version] {
				t.Errorf("%s has %s %s, which is not in the list", filepath.Base(p), m.Path, m.Version)
			}
		}
	}
}
