package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// kind is what an image is for.
type kind struct {
	name        string   // of the image and of its entry point
	programs    []string // in bin/, static: nothing else runs there, and root mounts without fusermount3
	description string
}

var (
	plainImage  = kind{"tensorfs", []string{"tensorfs"}, "Show the tensors of a model as files"}
	driverImage = kind{"tensorfs-csi", []string{"tensorfs", "tensorfs-csi"}, "Models as volumes of Kubernetes"}
)

// image is a container image for several platforms, as an archive of an OCI layout.
// of are the platforms, each with the directory of its bin/ and share/.
func (k kind) image(f facts, to string, of []string) error {
	layout := blobs{}
	notes := map[string]string{
		v1.AnnotationTitle: k.name, v1.AnnotationVersion: f.version, v1.AnnotationRevision: f.commit,
		v1.AnnotationCreated: f.date.Format("2006-01-02T15:04:05Z"), v1.AnnotationSource: "https://" + module, v1.AnnotationLicenses: "Apache-2.0",
		v1.AnnotationDescription: k.description,
	}
	platforms := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Annotations: notes}
	for _, pair := range of {
		name, prefix, _ := strings.Cut(pair, "=")
		system, arch, ok := strings.Cut(name, "/")
		if !ok || prefix == "" {
			return fmt.Errorf("%q: want PLATFORM=PREFIX", pair)
		}
		plain, err := k.root(f, prefix)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(plain); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		platform := v1.Platform{OS: system, Architecture: arch}
		if arch == "arm64" {
			platform.Variant = "v8"
		}
		config, err := layout.json(v1.MediaTypeImageConfig, v1.Image{
			Created: &f.date, Platform: platform,
			Config:  v1.ImageConfig{Entrypoint: []string{"/usr/bin/" + k.name}, Cmd: []string{"--help"}, Env: []string{"PATH=/usr/bin", "HOME=/root"}, Labels: notes},
			RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain)}},
			History: []v1.History{{Created: &f.date, CreatedBy: "scripts/release"}},
		})
		if err != nil {
			return err
		}
		manifest, err := layout.json(v1.MediaTypeImageManifest, v1.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config,
			Layers: []v1.Descriptor{layout.add(v1.MediaTypeImageLayerGzip, packed.Bytes())}, Annotations: notes,
		})
		if err != nil {
			return err
		}
		manifest.Platform = &platform
		platforms.Manifests = append(platforms.Manifests, manifest)
	}
	all, err := layout.json(v1.MediaTypeImageIndex, platforms)
	if err != nil {
		return err
	}
	tag := strings.TrimPrefix(f.goVersion, "v")
	all.Annotations = map[string]string{v1.AnnotationRefName: tag, "io.containerd.image.name": "localhost/" + k.name + ":" + tag} // what load calls it
	entry, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{all}})
	if err != nil {
		return err
	}
	layout[v1.ImageIndexFile] = entry
	layout[v1.ImageLayoutFile] = []byte(`{"imageLayoutVersion":"` + v1.ImageLayoutVersion + `"}`)
	return write(to, func(file *os.File) error {
		t := archive{tar.NewWriter(file), f, map[string]bool{}}
		for _, name := range slices.Sorted(maps.Keys(layout)) {
			if err := t.file(name, 0o644, layout[name]); err != nil {
				return err
			}
		}
		return t.Close()
	})
}

// blobs are the files of a layout by their paths.
type blobs map[string][]byte

func (b blobs) add(mediaType string, content []byte) v1.Descriptor {
	d := digest.FromBytes(content)
	b["blobs/"+d.Algorithm().String()+"/"+d.Encoded()] = content
	return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(content))}
}

func (b blobs) json(mediaType string, of any) (v1.Descriptor, error) {
	text, err := json.Marshal(of)
	return b.add(mediaType, text), err
}

// root is the file system of an image, as a tar archive.
func (k kind) root(f facts, prefix string) ([]byte, error) {
	var buffer bytes.Buffer
	t := archive{tar.NewWriter(&buffer), f, map[string]bool{}}
	var roots bytes.Buffer // by which servers of models are known
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue // a file of certificates cannot say what these may sign
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}); err != nil {
			return nil, err
		}
	}
	type entry struct {
		to   string
		mode int64
		of   any
	}
	shell := "/usr/bin/" + k.name // which is none
	files := []entry{
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/root:" + shell + "\nnobody:x:65534:65534:nobody:/:" + shell + "\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
		{"mnt/", 0o755, nil},
		{"root/", 0o700, nil},
		{"tmp/", 0o1777, nil},
	}
	for _, program := range k.programs {
		files = append(files, entry{"usr/bin/" + program, 0o755, "bin/" + program})
	}
	files = append(files,
		entry{"usr/share/doc/tensorfs/LICENSE", 0o644, "share/doc/tensorfs/LICENSE"},
		entry{"usr/share/doc/tensorfs/THIRD-PARTY-LICENSES", 0o644, "share/doc/tensorfs/THIRD-PARTY-LICENSES"},
		entry{"var/cache/", 0o755, nil},
	)
	for _, file := range files {
		var content []byte
		switch of := file.of.(type) {
		case []byte:
			content = of
		case string:
			var err error
			if content, err = os.ReadFile(filepath.Join(prefix, of)); err != nil {
				return nil, err
			}
		default:
			if err := t.dir(file.to, file.mode); err != nil {
				return nil, err
			}
			continue
		}
		if err := t.file(file.to, file.mode, content); err != nil {
			return nil, err
		}
	}
	err := t.Close()
	return buffer.Bytes(), err
}

// archive is a tar archive whose bytes depend on nothing but what is in it.
type archive struct {
	*tar.Writer
	facts
	dirs map[string]bool // those that are in it
}

// dir adds a directory, and those above it.
func (t archive) dir(name string, mode int64) error {
	name = strings.TrimSuffix(name, "/") + "/"
	if name == "./" || t.dirs[name] {
		return nil
	}
	if err := t.dir(filepath.Dir(strings.TrimSuffix(name, "/")), 0o755); err != nil {
		return err
	}
	t.dirs[name] = true
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, ModTime: t.date, Format: tar.FormatUSTAR})
}

func (t archive) file(name string, mode int64, content []byte) error {
	if err := t.dir(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: t.date, Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}
