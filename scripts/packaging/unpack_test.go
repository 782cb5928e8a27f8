package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// unpacker writes what a package has below a directory.
type unpacker func(t *testing.T, file, dir string)

func undeb(t *testing.T, file, dir string) {
	t.Helper()
	needs(t, "dpkg-deb")
	output(t, "dpkg-deb", "-x", file, dir)
}

// untar unpacks an archive that gzip has packed, in one stream or in several.
func untar(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	untarPlain(t, z, dir)
}

func untarPlain(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			put(t, dir, h.Name, os.ModeDir|os.FileMode(h.Mode&0o777), nil)
		case tar.TypeSymlink:
			put(t, dir, h.Name, os.ModeSymlink, []byte(h.Linkname))
		case tar.TypeReg:
			put(t, dir, h.Name, os.FileMode(h.Mode&0o777), content)
		default:
			t.Fatalf("%s is of type %c", h.Name, h.Typeflag)
		}
	}
}

// put makes a file, a link or a directory below dir. Neither an absolute name nor an earlier link
// leads out of dir.
func put(t *testing.T, dir, name string, mode os.FileMode, content []byte) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	to := strings.TrimLeft(filepath.Clean(name), "/")
	switch {
	case to == "" || to == ".":
		return
	case mode&os.ModeDir != 0:
		err = root.MkdirAll(to, 0o755)
	default:
		if err = root.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			break
		}
		if mode&os.ModeSymlink != 0 {
			err = root.Symlink(string(content), to)
		} else {
			err = root.WriteFile(to, content, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// unrpm unpacks an .rpm by its format: a lead of 96 bytes, two headers, the first padded to 8
// bytes, and a cpio archive, here packed by gzip.
func unrpm(t *testing.T, file, dir string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := 96
	for range 2 {
		at = (at + 7) &^ 7
		if len(b) < at+16 || !bytes.HasPrefix(b[at:], []byte{0x8e, 0xad, 0xe8, 1}) {
			t.Fatalf("there is no header at byte %d", at)
		}
		at += 16 + 16*int(binary.BigEndian.Uint32(b[at+8:])) + int(binary.BigEndian.Uint32(b[at+12:]))
	}
	z, err := gzip.NewReader(bytes.NewReader(b[at:]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	// cpio's new form: numbers of 8 hexadecimal digits; name and content are padded to 4.
	for at := 0; ; {
		if len(plain) < at+110 || string(plain[at:at+6]) != "070701" {
			t.Fatalf("there is no entry at byte %d", at)
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(plain[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, length := field(1), field(6), field(11)
		name := string(plain[at+110 : at+110+length-1])
		if name == "TRAILER!!!" {
			return
		}
		at = (at + 110 + length + 3) &^ 3
		content := plain[at : at+size]
		at = (at + size + 3) &^ 3
		kind := os.FileMode(mode & 0o777)
		switch mode & 0o170000 {
		case 0o040000:
			kind |= os.ModeDir
		case 0o120000:
			kind = os.ModeSymlink
		}
		put(t, dir, name, kind, content)
	}
}

// tryRPM tries a package of RPM, and compares unrpm with the listing of rpm's own tool, if it is installed.
// rpm unpacks nothing: names in packages are absolute, and cpio follows them.
func tryRPM(t *testing.T, dist, file string) {
	tryPackage(unrpm)(t, dist, file)
	for _, program := range []string{"rpm2cpio", "cpio"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("NOT TESTED: the listing of rpm's own tool, because there is no %s", program)
			return
		}
	}
	dir := t.TempDir()
	unrpm(t, file, dir)
	have := map[string]bool{}
	for _, name := range files(t, dir) {
		have["/"+name] = true
	}
	listed := 0
	for name := range strings.FieldsSeq(output(t, "sh", "-c", `rpm2cpio "$1" | cpio -t --quiet`, "sh", file)) {
		st, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || !st.IsDir() && !have[name] {
			t.Errorf("%s is not there: %v", name, err)
		}
		if err == nil && !st.IsDir() {
			listed++
		}
	}
	if listed != len(have) || listed < 20 {
		t.Errorf("%d files are unpacked, cpio lists %d", len(have), listed)
	}
}
