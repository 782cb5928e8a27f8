package packaging

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"debug/macho"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// model is what the programs of a release are tried with.
const model = "../../testdata/gguf/llama-xs.q8_0.gguf"

// machine returns the system and the architecture of a program or a library, as Go names
// them.
func machine(t *testing.T, file string) (system, arch string) {
	t.Helper()
	if f, err := elf.Open(file); err == nil {
		defer f.Close()
		return "linux", map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]
	}
	f, err := macho.Open(file)
	if err != nil {
		t.Fatalf("%s is no program of Linux or macOS: %v", file, err)
	}
	defer f.Close()
	return "darwin", map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[f.Cpu]
}

// runner returns what runs programs of a machine here, and false where nothing does.
func runner(system, arch string) (before []string, ok bool) {
	switch {
	case system != runtime.GOOS:
		return nil, false
	case arch == runtime.GOARCH:
		return nil, true
	}
	qemu, err := exec.LookPath(map[string]string{"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}[arch])
	return []string{qemu}, err == nil
}

// run holds that a program prints its version and computes, if this machine can run it.
func run(t *testing.T, program, version string) {
	t.Helper()
	system, arch := machine(t, program)
	before, ok := runner(system, arch)
	if !ok {
		t.Logf("NOT TESTED: a program for %s/%s, which does not run here", system, arch)
		return
	}
	say := func(args ...string) string {
		all := slices.Concat(before, []string{program}, args)
		return output(t, all[0], all[1:]...)
	}
	if out := say("--version"); !strings.HasPrefix(out, "tensorfs "+version+" ") || !strings.HasSuffix(out, " "+system+"/"+arch+"\n") {
		t.Errorf("--version prints %q", out)
	}
	want, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if out := say("cat", "-f", model, "gguf/model.gguf"); out != string(want) {
		t.Errorf("gguf/model.gguf of a GGUF file has %d bytes that are not the file's %d", len(out), len(want))
	}
	if out := say("stat", model, "output_norm.weight"); !strings.Contains(out, "\nstd ") {
		t.Errorf("stat prints %q", out)
	}
}

// of holds that a file is for the machine that the name of its package has.
func of(t *testing.T, packageName, file string) {
	t.Helper()
	system, arch := machine(t, file)
	name := strings.NewReplacer("x86_64", "amd64", "aarch64", "arm64").Replace(path.Base(packageName))
	if !strings.Contains(name, arch) || strings.Contains(name, "darwin") != (system == "darwin") && !strings.Contains(name, "macosx") {
		t.Errorf("%s has a file for %s/%s", path.Base(packageName), system, arch)
	}
}

func tryProgram(t *testing.T, _, file string) {
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o755 {
		t.Fatal(st, err)
	}
	of(t, file, file)
	run(t, file, packaged)
}

// tryPackage unpacks a package and runs its program.
func tryPackage(unpack unpacker) func(*testing.T, string, string) {
	return func(t *testing.T, _, file string) {
		dir := t.TempDir()
		unpack(t, file, dir)
		program := only(t, dir, "bin/tensorfs")
		of(t, file, program)
		run(t, program, packaged)
		only(t, dir, "tensorfs/THIRD-PARTY-LICENSES")
		only(t, dir, "man1/tensorfs.1.gz")
		if strings.HasSuffix(file, ".tar.gz") {
			return // mount(8)'s names are made by hand there, outside of what it has
		}
		helper := only(t, dir, "sbin/mount.tensorfs")
		if to, err := os.Readlink(helper); err != nil || filepath.Base(to) != "tensorfs" {
			t.Errorf("mount.tensorfs leads to %q: %v", to, err)
		}
	}
}

// tryLibrary unpacks a package of the C interface, and looks at what programs link with.
func tryLibrary(unpack unpacker) func(*testing.T, string, string) {
	return func(t *testing.T, _, file string) {
		dir := t.TempDir()
		unpack(t, file, dir)
		library := only(t, dir, "/libtensorfs.so.1")
		of(t, file, library)
		f, err := elf.Open(library)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.DynamicSymbols()
		if err != nil || !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "tensorfs_open" && s.Section != elf.SHN_UNDEF }) {
			t.Errorf("it has no tensorfs_open among %d symbols: %v", len(symbols), err)
		}
		only(t, dir, "include/tensorfs.h")
		only(t, dir, "pkgconfig/tensorfs.pc")
	}
}

// only returns the one path below a directory with an ending.
func only(t *testing.T, dir, ending string) string {
	t.Helper()
	var found []string
	for _, name := range files(t, dir) {
		if strings.HasSuffix("/"+name, ending) {
			found = append(found, filepath.Join(dir, name))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d files end in %s: %q", len(found), ending, found)
	}
	return found[0]
}

// tryWheel installs a wheel where pip takes it, and otherwise unpacks it.
func tryWheel(t *testing.T, _, file string) {
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := t.TempDir()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, f.Name, f.Mode(), content)
	}
	text, err := os.ReadFile("../../python/tensorfs/__init__.py")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n__version__ = \"")
	version, _, _ := strings.Cut(rest, "\"")
	program := only(t, dir, "/scripts/tensorfs")
	of(t, file, program)
	run(t, program, version)
	for _, name := range files(t, dir) {
		if strings.Contains(name, "/native/") {
			of(t, file, filepath.Join(dir, name))
		}
	}
	native := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if !strings.HasSuffix(file, "manylinux2014_"+native+".whl") {
		t.Log("NOT TESTED: this wheel with pip, which takes it on another system")
		return
	}
	venv := t.TempDir()
	if out, err := exec.Command("python3", "-m", "venv", venv).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: the wheel with pip: %v %s", err, bytes.TrimSpace(out))
	}
	python := filepath.Join(venv, "bin/python")
	output(t, python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", file)
	run(t, filepath.Join(venv, "bin/tensorfs"), version)
	if out := output(t, python, "-c", "import sys, tensorfs; m = tensorfs.open(sys.argv[1]); print(len(m.raw['output_norm.weight'].memoryview()), tensorfs.__version__)", model); out != "256 "+version+"\n" {
		t.Errorf("Python prints %q", out)
	}
}
