package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/views"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Attributes are what a volume asks for: volumeAttributes of a pod or a PersistentVolume, parameters of a StorageClass.
type attributes struct {
	Model    string `json:"model"`
	Path     string `json:"path,omitempty"` // "" for the whole tree
	Views    string `json:"views,omitempty"`
	GGUFType string `json:"ggufType,omitempty"`
	Lora     string `json:"lora,omitempty"` // adapters, with commas between
	Warm     string `json:"warm,omitempty"` // "", warmMount or warmReady
	Offline  bool   `json:"offline,omitempty"`
}

// What warm may be besides "none".
const (
	warmMount = "mount" // behind the pod
	warmReady = "ready" // before the pod starts
)

// shownDirectories are the directories of a tree that a volume may be, with all below them. They have no links: source/ has, which
// lead to where the model's files are.
var shownDirectories = func() []string {
	names := []string{"gguf", "hf", "mlx"}
	for _, v := range views.All {
		names = append(names, v.Name)
	}
	return names
}()

// attributeTable has a function for each attribute that takes its value.
var attributeTable = map[string]func(a *attributes, value, local string) error{
	"model": func(a *attributes, value, local string) (err error) {
		a.Model, err = checkModel(value, local)
		return err
	},
	"path": func(a *attributes, value, _ string) error {
		first, _, _ := strings.Cut(filepath.Clean(value), "/")
		switch {
		case !filepath.IsLocal(value):
			return fmt.Errorf("want a directory of the tree, such as hf, gguf or mlx")
		case first == ".":
			a.Path = ""
			return nil
		case !slices.Contains(shownDirectories, first):
			return fmt.Errorf("want one of %s, or . for all", strings.Join(shownDirectories, ", "))
		}
		a.Path = filepath.Clean(value)
		return nil
	},
	"views":    func(a *attributes, value, _ string) error { a.Views = value; return nil },
	"ggufType": func(a *attributes, value, _ string) error { a.GGUFType = value; return nil },
	"lora": func(a *attributes, value, local string) error {
		adapters := strings.Split(value, ",")
		for i, adapter := range adapters {
			var err error
			if adapters[i], err = checkAdapter(adapter, local); err != nil {
				name, _ := splitScale(adapter)
				return partError{name, err}
			}
		}
		a.Lora = strings.Join(adapters, ",")
		return nil
	},
	"warm": func(a *attributes, value, _ string) error {
		switch value {
		case warmMount, warmReady:
			a.Warm = value
		case "none":
		default:
			return fmt.Errorf("want none, %s or %s", warmMount, warmReady)
		}
		return nil
	},
	"offline": func(a *attributes, value, _ string) error {
		switch value {
		case "true", "false":
			a.Offline = value == "true"
			return nil
		}
		return fmt.Errorf("want true or false")
	},
}

const (
	// ofKubelet begins the names of attributes that kubelet adds.
	ofKubelet = "csi.storage.k8s.io/"
	// ofProvisioner begins the names that csi-provisioner adds to a volume, such as storage.kubernetes.io/csiProvisionerIdentity.
	ofProvisioner = "storage.kubernetes.io/"
	maxValue      = 4096 // bytes
)

// partError is about one name of several in a value.
type partError struct {
	name string
	error
}

// readAttributes reads and checks what was given. Paths have to be below local, and may not be given if that is "".
func readAttributes(given map[string]string, local string) (attributes, error) {
	var a attributes
	wrong := func(format string, args ...any) (attributes, error) {
		return attributes{}, status.Errorf(codes.InvalidArgument, format, args...)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if strings.HasPrefix(name, ofKubelet) || strings.HasPrefix(name, ofProvisioner) {
			continue
		}
		set := attributeTable[name]
		if set == nil {
			return wrong("no attribute %s; there are %s", tensorfs.Quote(name), strings.Join(slices.Sorted(maps.Keys(attributeTable)), ", "))
		}
		if value == "" {
			continue
		}
		if len(value) > maxValue || strings.ContainsRune(value, 0) {
			return wrong("attribute %s: it has %d bytes; want at most %d, and no NUL", name, len(value), maxValue)
		}
		if err := set(&a, value, local); err != nil {
			if part, ok := errors.AsType[partError](err); ok {
				value = part.name
			}
			return wrong("attribute %s: %s: %v", name, tensorfs.Quote(conceal.Name(value)), err)
		}
	}
	if a.Model == "" {
		return wrong("no attribute model; want a name such as hf:ORG/NAME@COMMIT")
	}
	return a, nil
}

// asGiven returns the attributes as they would be given.
func (a *attributes) asGiven() map[string]string {
	g := map[string]string{"model": a.Model, "path": a.Path, "views": a.Views, "ggufType": a.GGUFType, "lora": a.Lora, "warm": a.Warm}
	if a.Offline {
		g["offline"] = "true"
	}
	maps.DeleteFunc(g, func(_, value string) bool { return value == "" })
	return g
}

// remoteNames begin the names of models on other machines. What stands behind may not be empty: that would be a library. A server takes anything
// else for a path.
var remoteNames = []string{"hf:", "ollama:", "oci://", "s3://", "https://"}

// checkModel returns a model, or what is wrong with its name. A path is returned without links, as it was at that moment: a server makes sure
// itself that it opens nothing outside of local.
func checkModel(name, local string) (string, error) {
	switch {
	case strings.HasPrefix(name, "-"):
		return "", fmt.Errorf("it begins with a -")
	case isRemoteName(name):
		if login.MatchString(name) {
			return "", fmt.Errorf("attributes can be read by many; give credentials as a secret (nodePublishSecretRef)")
		}
		return name, nil
	case !filepath.IsAbs(name):
		return "", fmt.Errorf("want a name that begins with %s, or a path", strings.Join(remoteNames, " "))
	case local == "":
		return "", fmt.Errorf("this node's driver shows no files of the node; its option --local names a directory whose models it may")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", fmt.Errorf("want a path below %s, without \"..\" in it", local)
	}
	root, err := realPath(local)
	if err != nil {
		return "", fmt.Errorf("the directory of --local: %w", err)
	}
	path, err := realPath(name)
	if err != nil {
		return "", err
	}
	switch rel, err := filepath.Rel(root, path); {
	case err != nil || !filepath.IsLocal(rel):
		return "", fmt.Errorf("want a path below %s", local)
	case rel == ".":
		return "", fmt.Errorf("want a model in it: a volume shows one model")
	}
	return path, nil
}

func isRemoteName(name string) bool {
	return slices.ContainsFunc(remoteNames, func(prefix string) bool {
		return strings.HasPrefix(name, prefix) && strings.Trim(name, "/") != strings.Trim(prefix, "/")
	})
}

// realPath returns where the kernel has what a path leads to. What is missing at its end is added as it is: that it is not there is said when it is
// opened.
func realPath(name string) (string, error) {
	missing := ""
	for at := filepath.Clean(name); ; at = filepath.Dir(at) {
		fd, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
		if (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) && at != "/" {
			missing = filepath.Join(filepath.Base(at), missing)
			continue
		}
		if err != nil {
			return "", err
		}
		path, err := placeOf(fd)
		unix.Close(fd)
		return filepath.Join(path, missing), err
	}
}

// checkAdapter returns an adapter, or what is wrong with its name. A server takes the whole text for a path if something has it, so that a text
// with two meanings is refused.
func checkAdapter(adapter, local string) (string, error) {
	name, scale := splitScale(adapter)
	path, err := checkModel(name, local)
	if err != nil || isRemoteName(name) {
		return path + scale, err
	}
	for _, whole := range []string{adapter, path + scale} {
		if _, err := os.Lstat(whole); err == nil && scale != "" {
			return "", fmt.Errorf("with %s behind it, it is the path of something else; rename that", scale)
		}
	}
	if _, more := splitScale(path); more != "" && scale == "" || strings.Contains(path, ",") {
		return "", fmt.Errorf("it leads to %s, which cannot be given as an adapter; rename that", tensorfs.Quote(path))
	}
	return path + scale, nil
}

// splitScale splits an adapter into its name and the scale behind it, such as ":0.5", as a server does if nothing has the whole text for a path.
func splitScale(adapter string) (name, scale string) {
	name, _ = formats.CutScale(adapter, func(string) bool { return false })
	return name, adapter[len(name):]
}

// login finds who asks, and a password, in an address.
var login = regexp.MustCompile(`://[^/?#]*@`)

// public is the model's name for messages.
func (a *attributes) public() string { return tensorfs.Printable(conceal.Name(a.Model)) }

// isRemote reports whether the bytes come from another machine.
func (a *attributes) isRemote() bool { return !filepath.IsAbs(a.Model) }

var commit = regexp.MustCompile(`@[0-9a-f]{40}(:|$)`)

// moves reports whether nodes may find different versions of the model.
func (a *attributes) moves() bool {
	return strings.HasPrefix(a.Model, "hf:") && !commit.MatchString(a.Model)
}

// flags are the flags on the server's command line.
func (a *attributes) flags() []string {
	var f []string
	if a.Views != "" {
		f = append(f, "--views="+a.Views)
	}
	if a.GGUFType != "" {
		f = append(f, "--gguf-type="+a.GGUFType)
	}
	if a.Lora != "" {
		for _, adapter := range strings.Split(a.Lora, ",") {
			f = append(f, "--lora="+adapter)
		}
	}
	if a.Offline {
		f = append(f, "--offline")
	}
	return f
}

// served are the attributes by which servers differ: which part of the tree a volume shows, and when it is read, is not among them.
func (a *attributes) served() attributes {
	s := *a
	s.Path, s.Warm = "", ""
	return s
}

// key names the server of a model for users of the secrets with this sum. turn tells
// servers apart if an earlier one was given other secrets.
func (a *attributes) key(sum string, turn int) string {
	facts := []any{a.Model, a.Views, a.GGUFType, a.Lora, a.Offline, sum}
	if turn > 0 {
		facts = append(facts, turn)
	}
	text, err := json.Marshal(facts)
	if err != nil { // of texts
		panic(err)
	}
	return shortSum(text)
}

// keyLength is how many hexadecimal digits a key and the name of a record have.
const keyLength = 24

func shortSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:keyLength]
}
