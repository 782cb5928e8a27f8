// Command readbench measures reads through a mount: two ways of serving the same
// tensor, read in turn by a process of its own, pass after pass in one run.
//
//	readbench [-mib 256] [-passes 9] [-type Q4_K] [-view f16] [-how read|read128k|mmap|direct|random|random4k|strided|tworeaders] CONFIG CONFIG
//
// A CONFIG is a comma-separated list of options of the mount (see the table
// options). Before every pass the pages of the mounted file are dropped, so that
// every pass goes through the server; the source stays in the page cache, unless
// -cold drops that too. Absolute figures mean little on a shared machine: look
// at the ratios.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/mmap"
	"github.com/tensorfs/tensorfs/views"
	"golang.org/x/sys/unix"
)

const roleEnv = "READBENCH_ROLE"

func main() {
	var err error
	switch os.Getenv(roleEnv) {
	case "server":
		err = serve(os.Args[1:])
	case "client":
		err = client(os.Args[1:])
	default:
		err = bench()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "readbench:", err)
		os.Exit(1)
	}
}

// options are the words that a CONFIG may hold.
var options = map[string]func(o *fs.Options, value string) error{
	"": func(*fs.Options, string) error { return nil },
	"hot": func(o *fs.Options, v string) (err error) {
		o.Hot, err = strconv.ParseInt(v, 10, 64)
		o.Hot <<= 20
		return err
	},
	"mem": func(_ *fs.Options, v string) error {
		mib, err := strconv.ParseInt(v, 10, 64)
		debug.SetMemoryLimit(mib << 20)
		return err
	},
	"drop": func(o *fs.Options, _ string) error { o.DropBehind = true; return nil },
	"ra": func(o *fs.Options, v string) (err error) {
		o.ReadAheadKiB, err = strconv.Atoi(v)
		return err
	},
}

const cols = 4096

func dtypeByName(name string) (tensorfs.DType, bool) {
	for t := tensorfs.F32; t <= tensorfs.F8_E5M2FNUZ; t++ {
		if t.String() == name {
			return t, true
		}
	}
	return 0, false
}

func serve(args []string) error {
	mnt, path, dtype, view, config := args[0], args[1], args[2], args[3], args[4]
	f, err := mmap.Open(path, "model")
	if err != nil {
		return err
	}
	t, ok := dtypeByName(dtype)
	if !ok {
		return fmt.Errorf("no type %q", dtype)
	}
	row, ok := t.Size([]int64{1, cols})
	if !ok {
		return fmt.Errorf("no rows of %d elements in %s", cols, dtype)
	}
	rows := f.Size() / row
	m, err := tensorfs.NewModel(tensorfs.Model{Path: path, Tensors: []tensorfs.Tensor{{
		Name: "w", Source: "w", DType: t, Shape: []int64{rows, cols}, Data: f.Section(0, rows*row),
	}}})
	if err != nil {
		return err
	}
	var tree fs.Entries
	for _, b := range views.Build(m, views.Options{}) {
		if b.Name == view {
			for i := range b.Tensors.Len() {
				x := b.Tensors.At(i)
				tree = append(tree, fs.Entry{Name: x.Name, Data: x.Data})
			}
		}
	}
	if len(tree) == 0 {
		return fmt.Errorf("nothing in the view %s", view)
	}
	opts := fs.Options{FsName: path}
	for _, word := range strings.Split(config, ",") {
		key, value, _ := strings.Cut(word, "=")
		set := options[key]
		if set == nil {
			return fmt.Errorf("no option %q", key)
		}
		if err := set(&opts, value); err != nil {
			return err
		}
	}
	s, err := fs.Mount(tree, mnt, opts)
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); { // ends with the parent
			f.Drop(0, f.Size())
			fmt.Println("dropped")
		}
		end <- syscall.SIGTERM
	}()
	fmt.Println("ready")
	select {
	case <-end:
		return s.UnmountLazy()
	case <-s.Done():
		return nil
	}
}

// hows are the ways of reading. Each returns the number of bytes.
var hows = map[string]func(f *os.File, size int64) (int64, error){
	"read":       func(f *os.File, size int64) (int64, error) { return sequential(f, 1<<20) },
	"read128k":   func(f *os.File, size int64) (int64, error) { return sequential(f, 128<<10) },
	"mmap":       mapped,
	"direct":     func(f *os.File, _ int64) (int64, error) { return direct(f.Name(), 1<<20) },
	"random":     func(f *os.File, size int64) (int64, error) { return random(f, size, 64<<10) },
	"random4k":   func(f *os.File, size int64) (int64, error) { return random(f, size, 4<<10) },
	"strided":    strided,
	"tworeaders": tworeaders,
}

func sequential(f *os.File, n int) (int64, error) {
	buf := make([]byte, n)
	total := int64(0)
	for {
		n, err := unix.Pread(int(f.Fd()), buf, total)
		total += int64(n)
		if n == 0 || err != nil {
			return total, err
		}
	}
}

// direct reads with O_DIRECT: one request at a time, none ahead.
func direct(path string, n int) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // page-aligned
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(buf)
	total := int64(0)
	for {
		n, err := unix.Pread(int(f.Fd()), buf, total)
		total += int64(n)
		if n == 0 || err != nil {
			return total, err
		}
	}
}

func mapped(f *os.File, size int64) (int64, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(b)
	x := byte(0)
	for i := 0; i < len(b); i += 4096 {
		x ^= b[i]
	}
	sink = x
	return size, nil
}

var sink byte

func random(f *os.File, size int64, n int) (int64, error) {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		return 0, err
	}
	buf := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	total := int64(0)
	for range 1000 {
		if _, err := unix.Pread(int(f.Fd()), buf, r.Int64N(size/4096-16)*4096); err != nil {
			return 0, err
		}
		total += int64(n)
	}
	return total, nil
}

// strided reads a quarter of each MiB.
func strided(f *os.File, size int64) (int64, error) {
	buf := make([]byte, 256<<10)
	total := int64(0)
	for off := int64(0); off < size; off += 1 << 20 {
		n, err := unix.Pread(int(f.Fd()), buf, off)
		if err != nil {
			return 0, err
		}
		total += int64(n)
	}
	return total, nil
}

func tworeaders(f *os.File, size int64) (int64, error) {
	done := make(chan error, 2)
	for i := range int64(2) {
		go func() {
			buf := make([]byte, 1<<20)
			for off := i * size / 2; off < (i+1)*size/2; off += int64(len(buf)) {
				if _, err := unix.Pread(int(f.Fd()), buf, off); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	return size, errors.Join(<-done, <-done)
}

// client reads lines "go" and answers with nanoseconds and bytes of a pass.
func client(args []string) error {
	path, how := args[0], hows[args[1]]
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		start := time.Now()
		n, err := how(f, st.Size())
		if err != nil {
			return err
		}
		fmt.Println(time.Since(start).Nanoseconds(), n)
		f.Close()
	}
	return nil
}

type pair struct {
	config string
	server *child
	client *child
	times  []float64 // GB/s
	cpu    []float64 // ms of the server per GB
	ccpu   []float64 // ms of the client per GB
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(role string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+role)
	c.cmd.Stderr = os.Stderr
	c.in, _ = c.cmd.StdinPipe()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	return c, c.cmd.Start()
}

func (c *child) stop() {
	c.in.Close()
	_ = c.cmd.Wait() // the status of a client that was told to end says nothing
}

// line reads a line of the child.
func (c *child) line() (string, error) {
	if !c.out.Scan() {
		return "", errors.New("a child ended early")
	}
	return c.out.Text(), nil
}

// cpuTime returns the milliseconds of CPU that a process has used.
func cpuTime(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))
	user, _ := strconv.ParseFloat(f[12], 64)
	system, _ := strconv.ParseFloat(f[13], 64)
	return (user + system) * 10
}

func rssAnon(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "?"
}

func bench() error {
	mib := flag.Int64("mib", 256, "MiB of output")
	passes := flag.Int("passes", 9, "passes of each configuration")
	dtype := flag.String("type", "Q4_K", "stored type")
	view := flag.String("view", "f16", "view that is read")
	how := flag.String("how", "read", "how it is read")
	cold := flag.Bool("cold", false, "drop the source's pages before each pass")
	flag.Parse()
	if hows[*how] == nil || flag.NArg() == 0 {
		return errors.New("usage: readbench [flags] CONFIG [CONFIG]")
	}
	t, ok := dtypeByName(*dtype)
	if !ok {
		return fmt.Errorf("no type %q", *dtype)
	}
	rows := *mib << 20 / (2 * cols)
	size, ok := t.Size([]int64{rows, cols})
	if !ok {
		return fmt.Errorf("no rows of %d elements in %s", cols, *dtype)
	}
	dir, err := os.MkdirTemp("", "readbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	model := filepath.Join(dir, "model")
	if err := writeRandom(model, size); err != nil {
		return err
	}
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			if p.client != nil {
				p.client.stop()
			}
			p.server.stop()
		}
	}()
	for i, config := range flag.Args() {
		mnt := filepath.Join(dir, "mnt"+strconv.Itoa(i))
		if err := os.Mkdir(mnt, 0o755); err != nil {
			return err
		}
		p := &pair{config: config}
		if p.server, err = start("server", mnt, model, *dtype, *view, config); err != nil {
			return err
		}
		pairs = append(pairs, p)
		if _, err := p.server.line(); err != nil {
			return err
		}
		file := "w"
		if *view == "npy" {
			file = "w.npy"
		}
		if p.client, err = start("client", filepath.Join(mnt, file), *how); err != nil {
			return err
		}
	}
	for range *passes {
		for _, p := range pairs {
			for _, q := range pairs {
				if !*cold {
					break
				}
				fmt.Fprintln(q.server.in, "drop") // works when nobody has the source mapped any more: the last one
				if _, err := q.server.line(); err != nil {
					return err
				}
			}
			before, cbefore := cpuTime(p.server.cmd.Process.Pid), cpuTime(p.client.cmd.Process.Pid)
			fmt.Fprintln(p.client.in, "go")
			line, err := p.client.line()
			if err != nil {
				return err
			}
			var ns, n float64
			if _, err := fmt.Sscan(line, &ns, &n); err != nil {
				return err
			}
			p.times = append(p.times, n/ns)
			p.cpu = append(p.cpu, (cpuTime(p.server.cmd.Process.Pid)-before)/(n/1e9))
			p.ccpu = append(p.ccpu, (cpuTime(p.client.cmd.Process.Pid)-cbefore)/(n/1e9))
		}
	}
	fmt.Printf("%s %s %s, %d MiB, %d passes", *dtype, *view, *how, *mib, *passes)
	if *cold {
		fmt.Print(", source not cached")
	}
	fmt.Println()
	for _, p := range pairs {
		ratios := make([]float64, len(p.times))
		for i := range ratios {
			ratios[i] = p.times[i] / pairs[0].times[i]
		}
		fmt.Printf("  %-24s best %5.2f  median %5.2f GB/s  ratio to first, median %5.2f  CPU %4.0f+%4.0f ms/GB  RssAnon %s\n", "["+p.config+"]",
			slices.Max(p.times), median(p.times), median(ratios), median(p.cpu), median(p.ccpu), rssAnon(p.server.cmd.Process.Pid))
	}
	return nil
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}

func writeRandom(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	r := rand.NewChaCha8([32]byte{1})
	if _, err := io.CopyN(f, r, size); err != nil {
		f.Close()
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
