package metal_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
	"github.com/tensorfs/tensorfs/metal"
)

// These tests use real mounts, served by the program in a process of its own: a
// process that maps files of its own mount can lock itself up.

const holdEnv = "TENSORFS_TEST_HOLD"

func TestMain(m *testing.M) {
	if mount := os.Getenv(holdEnv); mount != "" {
		if err := hold(mount); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if programDir != "" {
		os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// programDir is where program puts the program; removed after all tests.
var programDir string

// program builds cmd/tensorfs once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tensorfs-metal")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "tensorfs")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/tensorfs").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// server mounts a model and returns the mount point and the server's process.
func server(t *testing.T, model string) (mount string, process *os.Process) {
	t.Helper()
	testmount.Need(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	mount = t.TempDir()
	var output bytes.Buffer
	cmd := exec.Command(path, "mount", "-f", model, mount)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		// Whatever the test did to the server, the mount goes and it ends.
		if out, err := exec.Command(path, "umount", mount).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
		kill := time.AfterFunc(testlimit.Patience, func() {
			t.Error("the server did not end")
			cmd.Process.Kill()
		})
		<-ended
		kill.Stop()
	})
	testlimit.Wait(t, "mount", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the server ended: %v\n%s", err, output.Bytes())
		default:
		}
		_, err := os.Stat(filepath.Join(mount, "index.json"))
		return err == nil
	})
	return mount, cmd.Process
}

// embedding is the shape of the tensor that is converted: 8 MiB as halves.
var embedding = [2]int64{2048, 2048}

// numberAt is element i of it, exact as BF16 and as half.
func numberAt(i int) float32 { return float32(i%251) - 125 }

// writeModel writes a safetensors file with a BF16 embedding, which f16/ must convert, and an F16
// norm, which f16/ has unchanged.
func writeModel(t *testing.T) (path string, norm []byte) {
	t.Helper()
	n := int(embedding[0] * embedding[1])
	norm = bytes.Repeat([]byte{0x00, 0x3c, 0x00, 0x40}, int(embedding[1]/2))
	header, err := json.Marshal(map[string]any{
		"model.norm.weight":         map[string]any{"dtype": "F16", "shape": embedding[1:], "data_offsets": []int{0, len(norm)}},
		"model.embed_tokens.weight": map[string]any{"dtype": "BF16", "shape": embedding[:], "data_offsets": []int{len(norm), len(norm) + 2*n}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(append(file, header...), norm...)
	for i := range n {
		file = binary.LittleEndian.AppendUint16(file, uint16(math.Float32bits(numberAt(i))>>16))
	}
	path = filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, norm
}

// halves returns the embedding as f16/ must give it.
func halves() []byte {
	var b []byte
	for i := range int(embedding[0] * embedding[1]) {
		f := numberAt(i)
		h := uint16(0)
		if f != 0 {
			bits := math.Float32bits(f)
			h = uint16(bits>>16&0x8000) | uint16((int(bits>>23&0xff)-127+15)<<10) | uint16(bits>>13&0x3ff)
		}
		b = binary.LittleEndian.AppendUint16(b, h)
	}
	return b
}

// Every tensor of every view of a real mount, with and without the model's own
// file, has the bytes that reading its mounted file gives.
func TestMountedBytes(t *testing.T) {
	model, norm := writeModel(t)
	mount, _ := server(t, model)
	for _, opts := range []metal.Options{{}, {TreeOnly: true}} {
		l := openDir(t, mount, opts)
		if got := l.Model(); got.Format != "safetensors" || got.Path != mount {
			t.Errorf("model %s %s", got.Format, got.Path)
		}
		var refs []metal.Ref
		for _, view := range l.Views() {
			for _, name := range l.Names(view) {
				refs = append(refs, metal.Ref{view, name})
			}
		}
		if err := l.Prefetch(t.Context(), refs, nil); err != nil {
			t.Fatal(err)
		}
		for _, ref := range refs {
			want, err := os.ReadFile(filepath.Join(mount, ref.String()))
			if err != nil {
				t.Fatal(err)
			}
			b, err := l.Tensor(ref.View, ref.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.View(func(p []byte) error {
				if !bytes.Equal(p, want) {
					t.Errorf("%s: other bytes than its file", ref)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if direct := b.File == model; direct && opts.TreeOnly {
				t.Errorf("%s: from %s", ref, b.File)
			}
			if err := b.Release(); err != nil {
				t.Error(err)
			}
		}
		for _, c := range []struct {
			ref    metal.Ref
			want   []byte
			direct bool
		}{
			{metal.Ref{"f16", "token_embedding.weight"}, halves(), false},
			{metal.Ref{"f16", "output_norm.weight"}, norm, true},
			{metal.Ref{"raw", "output_norm.weight"}, norm, true},
		} {
			b := get(t, l, c.ref.View, c.ref.Name)
			if !bytes.Equal(b.Contents, c.want) {
				t.Errorf("%s: wrong numbers", c.ref)
			}
			if direct := b.File == model; direct != (c.direct && !opts.TreeOnly) {
				t.Errorf("%s: from %s", c.ref, b.File)
			}
		}
	}
}

// hold is the other process: it maps the embedding, touches every page, prints its address, and
// keeps it until its input ends.
func hold(mount string) error {
	device, err := metal.NewHost(metal.HostOptions{})
	if err != nil {
		return err
	}
	l, err := metal.Open(mount, metal.Options{Device: device})
	if err != nil {
		return err
	}
	b, err := l.Tensor("f16", "token_embedding.weight")
	if err != nil {
		return err
	}
	sum := 0
	if err := b.View(func(p []byte) error {
		for i := 0; i < len(p); i += 512 {
			sum += int(p[i])
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Printf("%x %d\n", uintptr(unsafe.Pointer(unsafe.SliceData(b.Contents))), sum)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return errors.Join(b.Release(), l.Close(), device.Close())
}

// Processes that map the same converted file share one copy of its pages: of
// what each sees as resident, each is charged its part.
func TestMountedPagesAreShared(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: shared pages, because only Linux counts them (/proc/PID/smaps)")
	}
	model, _ := writeModel(t)
	mount, _ := server(t, model)
	const processes = 2
	pids := make([]string, processes)
	addrs := make([]uintptr, processes)
	for i := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), holdEnv+"="+mount)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
		pids[i] = fmt.Sprint(cmd.Process.Pid)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var sum int
		if _, err := fmt.Sscanf(line, "%x %d", &addrs[i], &sum); err != nil {
			t.Fatal(err)
		}
	}
	size := int(2 * embedding[0] * embedding[1] / 1024)
	for i, pid := range pids {
		rss, pss := smapsOf(t, pid, addrs[i])
		t.Logf("process %d: Rss %d KiB, Pss %d KiB of %d", i+1, rss, pss, size)
		if rss != size || pss < size/processes-8 || pss > size/processes+8 {
			t.Errorf("process %d: Rss %d KiB, Pss %d KiB; want %d and %d", i+1, rss, pss, size, size/processes)
		}
	}
}

// Prefetch brings the pages of a converted file into memory, and no others.
func TestMountedPrefetch(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: resident pages, because only Linux is asked for them (mincore)")
	}
	model, _ := writeModel(t)
	mount, _ := server(t, model)
	l := openDir(t, mount, metal.Options{})
	b := get(t, l, "f16", "token_embedding.weight")
	if n := resident(t, b.Contents); n != 0 {
		t.Errorf("%d pages are in memory before", n)
	}
	if err := l.Prefetch(t.Context(), []metal.Ref{{"f16", "output_norm.weight"}}, nil); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, b.Contents); n != 0 {
		t.Errorf("%d pages of another tensor came with it", n)
	}
	if err := l.Prefetch(t.Context(), []metal.Ref{{"f16", "token_embedding.weight"}}, nil); err != nil {
		t.Fatal(err)
	}
	if n, want := resident(t, b.Contents), len(b.Contents)/os.Getpagesize(); n != want {
		t.Errorf("%d pages of %d are in memory", n, want)
	}
}

// Tensors that are read into memory leave nothing in the page cache.
func TestMountedReadsPastThePageCache(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: resident pages, because only Linux is asked for them (mincore)")
	}
	model, _ := writeModel(t)
	mount, _ := server(t, model)
	l := openDir(t, mount, metal.Options{})
	ref := metal.Ref{View: "f16", Name: "token_embedding.weight"}
	s, err := l.Load(t.Context(), []metal.Ref{ref}, metal.LoadOptions{Cache: metal.CacheOff})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := s.Buffer(ref); b.Origin != metal.OriginMemory || !bytes.Equal(b.Contents, halves()) {
		t.Errorf("wrong bytes from %s", b.Origin)
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
	b := get(t, l, ref.View, ref.Name)
	if n := resident(t, b.Contents); n != 0 || b.Origin != metal.OriginCache {
		t.Errorf("%d pages are in memory", n)
	}
}

// A mounted tree describes itself in its attributes as in index.json, which is then not read.
func TestMountedSaysWhatItIs(t *testing.T) {
	model, _ := writeModel(t)
	mount, _ := server(t, model)
	l := openDir(t, mount, metal.Options{})
	type entry struct {
		DType string  `json:"dtype"`
		Shape []int64 `json:"shape"`
		Bytes int64   `json:"bytes"`
	}
	got := map[string]map[string]entry{}
	for _, view := range l.Views() {
		got[view] = map[string]entry{}
		for _, name := range l.Names(view) {
			info, err := l.Info(view, name)
			if err != nil {
				t.Fatal(err)
			}
			got[view][name] = entry{info.DType.String(), info.Shape, info.Data.Size()}
		}
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, f := range files {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && to == filepath.Join(mount, "index.json") {
				t.Error("index.json was read")
			}
		}
	}
	var index struct {
		Model struct {
			Files []struct {
				Name  string `json:"name"`
				Bytes int64  `json:"bytes"`
			} `json:"files"`
		} `json:"model"`
		Views map[string]map[string]entry `json:"views"`
	}
	text, err := os.ReadFile(filepath.Join(mount, "index.json"))
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, index.Views) {
		t.Errorf("the files say\n%v\nand index.json\n%v", got, index.Views)
	}
	st, err := os.Stat(model)
	if f := index.Model.Files; err != nil || len(f) != 1 || f[0].Name != filepath.Base(model) || f[0].Bytes != st.Size() {
		t.Errorf("files %+v, %v", f, err)
	}
	if _, err := l.Info("f16", "nothing"); !errors.Is(err, metal.ErrAbsent) {
		t.Errorf("error %v", err)
	}
}

// A server that is killed costs errors, not the client.
func TestMountLost(t *testing.T) {
	model, _ := writeModel(t)
	mount, process := server(t, model)
	l := openDir(t, mount, metal.Options{TreeOnly: true})
	b, err := l.Tensor("f16", "token_embedding.weight")
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "end of answers", func() bool {
		_, err := os.Stat(filepath.Join(mount, "raw/nothing"))
		return err != nil && !errors.Is(err, os.ErrNotExist)
	})
	if n, err := b.ReadAt(make([]byte, b.Size), 0); n != 0 || err == nil || !strings.Contains(err.Error(), "was lost while it was read") {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	for _, ref := range []metal.Ref{{"raw", "output_norm.weight"}, {"npy", "output_norm.weight.npy"}} {
		if _, err := l.Tensor(ref.View, ref.Name); err == nil || !strings.Contains(err.Error(), "the mount is gone") {
			t.Errorf("Tensor: %v", err)
		}
		if err := l.Prefetch(t.Context(), []metal.Ref{ref}, nil); err == nil {
			t.Error("Prefetch: no error")
		}
	}
	if err := l.Prefetch(t.Context(), []metal.Ref{{"f16", "token_embedding.weight"}}, nil); err == nil {
		t.Error("Prefetch of a lost mapping: no error")
	}
	if err := errors.Join(b.Release(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := metal.Open(mount, metal.Options{}); err == nil {
		t.Error("a lost mount was opened")
	}
}

// A model that was modified or replaced after it was mounted is never mapped as
// if it were the mounted one.
func TestMountedModelChanges(t *testing.T) {
	testwatch.Need(t)
	for _, c := range []struct {
		name   string
		change func(path string) error
		served bool // the mount still has the old bytes
	}{
		{"replaced", func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			at := bytes.Index(b, []byte{0x00, 0x3c, 0x00, 0x40})
			b[at] = 1
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path+".new", b, 0o644), os.Chtimes(path+".new", st.ModTime(), st.ModTime()), os.Rename(path+".new", path))
		}, true},
		{"modified", func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{1}, 3000)
			return errors.Join(err, f.Close())
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			model, norm := writeModel(t)
			mount, _ := server(t, model)
			l := openDir(t, mount, metal.Options{})
			if err := c.change(model); err != nil {
				t.Fatal(err)
			}
			b, err := l.Tensor("raw", "output_norm.weight")
			if err == nil {
				err = b.View(func(p []byte) error {
					if !slices.Equal(p, norm) {
						return errors.New("wrong bytes without an error")
					}
					return nil
				})
				if rerr := b.Release(); rerr != nil {
					t.Error(rerr)
				}
			}
			if c.served && err != nil {
				t.Error(err)
			}
			if !c.served && (err == nil || strings.Contains(err.Error(), "wrong bytes")) {
				t.Errorf("error %v, want one of a lost page", err)
			}
		})
	}
}
