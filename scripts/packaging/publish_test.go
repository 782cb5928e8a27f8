package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shell runs commands with the functions of publish.sh in a directory, and returns what they print.
func shell(t *testing.T, dir, commands string) (string, error) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash", "-euo", "pipefail", "-c", `. "$0"; `+commands, filepath.Join(here, "publish.sh"))
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestReady: a release of anything but the tagged commit, or of files that name another version, is refused.
func TestReady(t *testing.T) {
	const commit = "git add -A && git commit -q -m more && "
	for _, c := range []struct {
		name, before, ask string
		want              []string // parts of lines, one line each; none if it is ready
	}{
		{"tagged", "git tag v0.1.0", "v0.1.0", nil},
		{"annotated tag", "git tag -a -m x v0.1.0", "v0.1.0", nil},
		{"no tag", "true", "v0.1.0", []string{"there is no tag v0.1.0"}},
		{"dry run without a tag", "true", "v0.1.0 dry", nil},
		{"tag of another commit", "git tag v0.1.0; echo >new; " + commit + "true", "v0.1.0 dry", []string{"v0.1.0 is the tag of another commit"}},
		{"changed file", "git tag v0.1.0; echo >>CHANGELOG.md", "v0.1.0", []string{"not committed:", "M CHANGELOG.md"}},
		{"new file", "echo >new.go", "v0.1.0 dry", []string{"not committed:", "?? new.go"}},
		{"ignored file", "echo dist >.gitignore; " + commit + "echo >dist", "v0.1.0 dry", nil},
		{"another version", "true", "v0.2.0 dry", []string{
			`CHANGELOG.md: the first heading is "## 0.1.0"; want "## 0.2.0"`, `__init__.py: the version is "0.1.0"; want "0.2.0"`, `default.nix: the version is "0.1.0"; want "0.2.0"`}},
		{"not released yet", "sed -i 's/## 0.1.0/&, not released yet/' CHANGELOG.md; " + commit + "true", "v0.1.0 dry", []string{"the first heading is"}},
		{"candidate", "sed -i s/0.1.0/0.1.0rc1/ python/tensorfs/*; sed -i s/0.1.0/0.1.0-rc1/ scripts/packaging/*; " + commit + "true", "v0.1.0-rc1 dry", nil},
		{"not a tag", "true", "0.1.0 dry", []string{"0.1.0 is not a release's tag"}},
		{"other suffix", "true", "v0.1.0-next dry", []string{"is not a release's tag"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "CHANGELOG.md"), "# Changes\n\n## 0.1.0\n\n## 0.0.9\n")
			write(t, filepath.Join(dir, "python/tensorfs/__init__.py"), "__version__ = \"0.1.0\"\n")
			write(t, filepath.Join(dir, "scripts/packaging/default.nix"), "  version = \"0.1.0\";\n  ldflags = [ \"-X main.release=0.1.0\" ];\n")
			if out, err := shell(t, dir, "git init -q; "+commit+c.before); err != nil {
				t.Fatal(err, out)
			}
			got, err := shell(t, dir, "ready "+c.ask)
			lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
			if got == "" {
				lines = nil
			}
			if err != nil || len(lines) != len(c.want) {
				t.Fatalf("%v, it says\n%swant %q", err, got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("it says %q, want %q", lines[i], want)
				}
			}
		})
	}
}

// TestPublish: each try of a command that publishes fails on a fault of the files, and the command is printed all the same.
func TestPublish(t *testing.T) {
	const formula = "  url \"https://example.org/v0.1.0/tensorfs-0.1.0.tar.gz\"\n  sha256 \"$(sha256sum <tensorfs-0.1.0.tar.gz | cut -d ' ' -f 1)\"\n"
	const made = "dist=$PWD work=$PWD/.work VERSION=0.1.0 go_version=v0.1.0; echo sources >tensorfs-0.1.0.tar.gz; cat >tensorfs.rb <<END\n" + formula + "END\n" +
		"sha256sum tensorfs* >SHA256SUMS; mkdir .work; "
	const answers = "curl() { echo -n "
	for _, c := range []struct{ name, before, ask, want string }{
		{"files", "", "try_assets", ""},
		{"changed", "echo >>tensorfs.rb; ", "try_assets", "tensorfs.rb: FAILED"},
		{"missing", "rm tensorfs.rb; ", "try_assets", "tensorfs.rb"},
		{"name that GitHub changes", "echo >tensorfs_0.1.0~rc1_amd64.deb; ", "try_assets", "GitHub would store these under other names: tensorfs_0.1.0~rc1_amd64.deb"},
		{"formula", "", "try_formula", ""},
		{"formula of another archive", "echo more >>tensorfs-0.1.0.tar.gz; ", "try_formula", "another digest than tensorfs-0.1.0.tar.gz"},
		{"free name", answers + "404; }; ", "try_name tensorfs_models-0.1.0-py3-none-any.whl", ""},
		{"own name", "echo '{\"Source\":\"https://github.com/tensorfs/tensorfs\"}' >json; " + answers + "200; }; ", "try_name tensorfs_models-0.1.0-py3-none-any.whl", ""},
		{"name of another project", "echo '{}' >json; " + answers + "200; }; ", "try_name tensorfs-0.1.0-py3-none-any.whl", "on PyPI tensorfs is another project"},
		{"no network", answers + "000; return 6; }; ", "try_name tensorfs_models-0.1.0-py3-none-any.whl", "PyPI does not say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := shell(t, t.TempDir(), made+c.before+c.ask)
			if (err == nil) != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%v, it says %q, want %q", err, got, c.want)
			}
		})
	}
	got, err := shell(t, t.TempDir(), made+"try_module() { :; }; twine() { echo true; }; try_name() { :; }; skopeo() { echo no such archive; return 1; }; publish try")
	if err == nil {
		t.Error("it succeeds with images that cannot be copied")
	}
	for _, want := range []string{
		"# Go proxy (tried: ok)\ngit push origin v0.1.0 && ", "# GitHub release (tried: ok)\ngh release create v0.1.0 --verify-tag ", "# PyPI (tried: ok)\npython3 -m twine upload ",
		"# Homebrew tap (tried: ok)\ngit clone -q git@github.com:tensorfs/homebrew-tap tap && ", "# images (tried: FAILED: no such archive", "-0.1.0-image.tar docker://ghcr.io/tensorfs/$i:0.1.0; done\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
}

// TestReleaseKeepsFiles: a directory with files of the user is refused, and keeps them. What earlier builds made goes.
func TestReleaseKeepsFiles(t *testing.T) {
	dist := t.TempDir()
	write(t, filepath.Join(dist, "notes.txt"), "mine")
	old := []string{"tensorfs_models-0.0.1-py3-none-any.whl", "tensorfs_0.0.1_amd64.deb", "libtensorfs-dev_0.0.1_amd64.deb", "tensorfs.rb", "SHA256SUMS", "goproxy/a/b.zip"}
	for _, name := range old {
		write(t, filepath.Join(dist, name), "old")
	}
	c := exec.Command("../release", "--trial", version)
	c.Env = append(os.Environ(), "DIST="+dist, "WHEELS=")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has files that no release made; please move them away: notes.txt") {
		t.Errorf("%v, it says %s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dist, "notes.txt")); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	if left := files(t, dist); len(left) != 1 {
		t.Errorf("it left %q", left)
	}
}

// TestSourceSize: what everybody fetches who builds from sources is small. The data of the tests, most of the
// repository's bytes, is in a module of its own and left out of archives by .gitattributes.
func TestSourceSize(t *testing.T) {
	c := exec.Command("git", "ls-files", "-z", "--", ".", ":(exclude,attr:export-ignore)")
	c.Dir = "../.."
	out, err := c.Output()
	if err != nil {
		t.Skipf("NOT TESTED: git knows no files here: %v", err)
	}
	var size int64
	var data []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if st, err := os.Lstat(filepath.Join("../..", name)); err == nil {
			size += st.Size()
		}
		if strings.HasPrefix(name, "testdata/") {
			data = append(data, name)
		}
	}
	if want := "testdata/gguf/kv.gguf testdata/gguf/llama-xs.q8_0.gguf testdata/go.mod"; strings.Join(data, " ") != want {
		t.Errorf("of testdata it has %q, want %s", data, want)
	}
	if size > 14e6 {
		t.Errorf("the sources have %d bytes", size)
	}
}
