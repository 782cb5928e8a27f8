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
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// attributes are what a volume asks for: volumeAttributes of a pod or a PersistentVolume, parameters of a StorageClass. They are
// checked, paths are without links, and a value that is the default is absent.
type attributes map[string]string

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

// attribute is a row of attributeTable.
type attribute struct {
	flag      string // of the server, "" for an attribute that a server is not told
	separator string // between several values; each is a flag of its own
	// check returns a value as it is passed on, "" for the default. It is nil if only the server checks.
	check func(value, local string) (string, error)
}

// attributeTable has all attributes by name. The fields of models.Convert give the rest.
var attributeTable = func() map[string]attribute {
	table := map[string]attribute{
		"model":   {check: checkModel},
		"path":    {check: checkTreePath},
		"warm":    {check: checkWord("none", "none", warmMount, warmReady)},
		"offline": {flag: "offline", check: checkWord("false", "true", "false")},
		"views":   {flag: "views"},
		"i2s":     {flag: "i2s"},
		"lora":    {flag: "lora", separator: ",", check: checkAdapter},
	}
	for flag, field := range new(models.Convert).Fields() {
		a := attribute{flag: flag, check: optionChecks[flag]}
		switch field.(type) {
		case *bool:
			a.check = checkWord("false", "true", "false")
		case *[]string:
			a.separator = "\n"
		}
		table[attributeName(flag)] = a
	}
	return table
}()

// optionChecks are the checks of options that name files.
var optionChecks = map[string]func(value, local string) (string, error){
	"imatrix":           checkPath,
	"tensor-types-from": checkModel,
	"mmproj": func(value, local string) (string, error) {
		if value == models.NoTower {
			return value, nil
		}
		return checkPath(value, local)
	},
	"set": func(value, local string) (string, error) {
		key, file, ok := strings.Cut(value, "=@")
		if !ok || strings.Contains(key, "=") {
			return value, nil
		}
		path, err := checkPath(file, local)
		return key + "=@" + path, err
	},
}

// attributeName returns the attribute of a flag: ggufType of gguf-type.
func attributeName(flag string) string {
	first, rest, _ := strings.Cut(flag, "-")
	for word := range strings.SplitSeq(rest, "-") {
		if word != "" {
			first += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return first
}

// checkWord returns a check that a value is one of the words. usual is the default.
func checkWord(usual string, words ...string) func(value, local string) (string, error) {
	return func(value, _ string) (string, error) {
		switch {
		case value == usual:
			return "", nil
		case slices.Contains(words, value):
			return value, nil
		}
		return "", fmt.Errorf("want %s", near.Either(words))
	}
}

// checkTreePath checks a directory of the tree.
func checkTreePath(value, _ string) (string, error) {
	first, _, _ := strings.Cut(filepath.Clean(value), "/")
	switch {
	case !filepath.IsLocal(value):
		return "", fmt.Errorf("want a directory of the tree, such as hf, gguf or mlx")
	case first == ".":
		return "", nil
	case !slices.Contains(shownDirectories, first):
		return "", fmt.Errorf("want one of %s, or . for all", strings.Join(shownDirectories, ", "))
	}
	return filepath.Clean(value), nil
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
	a := attributes{}
	wrong := func(format string, args ...any) (attributes, error) {
		return nil, status.Errorf(codes.InvalidArgument, format, args...)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if strings.HasPrefix(name, ofKubelet) || strings.HasPrefix(name, ofProvisioner) {
			continue
		}
		row, ok := attributeTable[name]
		if !ok {
			return wrong("no attribute %s; there are %s", tensorfs.Quote(name), strings.Join(slices.Sorted(maps.Keys(attributeTable)), ", "))
		}
		if value == "" {
			continue
		}
		if len(value) > maxValue || strings.ContainsRune(value, 0) {
			return wrong("attribute %s: it has %d bytes; want at most %d, and no NUL", name, len(value), maxValue)
		}
		checked, err := row.read(value, local)
		if err != nil {
			if part, ok := errors.AsType[partError](err); ok {
				value = part.name
			}
			return wrong("attribute %s: %s: %v", name, tensorfs.Quote(conceal.Name(value)), err)
		}
		if checked != "" {
			a[name] = checked
		}
	}
	if a["model"] == "" {
		return wrong("no attribute model; want a name such as hf:ORG/NAME@COMMIT")
	}
	return a, nil
}

// read checks a value, or each of several.
func (row *attribute) read(value, local string) (string, error) {
	parts := row.split(value)
	for i, part := range parts {
		if row.check == nil {
			break
		}
		checked, err := row.check(part, local)
		if err == nil && row.separator != "" && strings.Contains(checked, row.separator) && !strings.Contains(part, row.separator) {
			err = fmt.Errorf("it leads to %s, and %q separates values; rename that", tensorfs.Quote(checked), row.separator)
		}
		if err != nil {
			if _, ok := errors.AsType[partError](err); !ok {
				err = partError{part, err}
			}
			return "", err
		}
		parts[i] = checked
	}
	return strings.Join(parts, row.separator), nil
}

// split returns the values of an attribute. Empty lines between values are left out, such as the one at the end of a block of YAML.
func (row *attribute) split(value string) []string {
	switch row.separator {
	case "":
		return []string{value}
	case "\n":
		return strings.FieldsFunc(value, func(r rune) bool { return r == '\n' })
	}
	return strings.Split(value, row.separator)
}

// remoteNames begin the names of models on other machines. What stands behind may not be empty: that would be a library. A server takes anything
// else for a path.
var remoteNames = []string{"hf:", "ms:", "ollama:", "oci://", "s3://", "gs://", "az://", "https://"}

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
	}
	return checkPath(name, local)
}

// checkPath is checkModel for paths.
func checkPath(name, local string) (string, error) {
	switch {
	case !filepath.IsAbs(name):
		return "", fmt.Errorf("want a path that begins with /")
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
	if err == nil && !isRemoteName(name) {
		err = checkScaled(adapter, path, scale)
	}
	if err != nil {
		return "", partError{name, err}
	}
	return path + scale, nil
}

// checkScaled checks that neither an adapter nor the path that it leads to, with the scale behind it, has two meanings.
func checkScaled(adapter, path, scale string) error {
	for _, whole := range []string{adapter, path + scale} {
		if _, err := os.Lstat(whole); err == nil && scale != "" {
			return fmt.Errorf("with %s behind it, it is the path of something else; rename that", scale)
		}
	}
	if _, more := splitScale(path); more != "" && scale == "" {
		return fmt.Errorf("it leads to %s, which cannot be given as an adapter; rename that", tensorfs.Quote(path))
	}
	return nil
}

// splitScale splits an adapter into its name and the scale behind it, such as ":0.5", as a server does if nothing has the whole text for a path.
func splitScale(adapter string) (name, scale string) {
	name, _ = formats.CutScale(adapter, func(string) bool { return false })
	return name, adapter[len(name):]
}

// login finds who asks, and a password, in an address.
var login = regexp.MustCompile(`://[^/?#]*@`)

// public is the model's name for messages.
func (a attributes) public() string { return conceal.Printable(a["model"]) }

// isRemote reports whether the bytes come from another machine.
func (a attributes) isRemote() bool { return !filepath.IsAbs(a["model"]) }

var commit = regexp.MustCompile(`@[0-9a-f]{40}(:|$)`)

// moves reports whether nodes may find different versions of the model.
func (a attributes) moves() bool {
	return strings.HasPrefix(a["model"], "hf:") && !commit.MatchString(a["model"])
}

// flags are the flags on the server's command line.
func (a attributes) flags() (flags []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		row := attributeTable[name]
		if row.flag == "" {
			continue
		}
		for _, value := range row.split(a[name]) {
			flags = append(flags, "--"+row.flag+"="+value)
		}
	}
	return flags
}

// served are the attributes by which servers differ: which part of the tree a volume shows, and when it is read, is not among them.
func (a attributes) served() attributes {
	s := maps.Clone(a)
	delete(s, "path")
	delete(s, "warm")
	return s
}

// key names the server of a model for users of the secrets with this sum. turn tells
// servers apart if an earlier one was given other secrets.
func (a attributes) key(sum string, turn int) string {
	text, err := json.Marshal([]any{a.served(), sum, turn})
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
