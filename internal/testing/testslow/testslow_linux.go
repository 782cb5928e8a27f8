// Package testslow shows a directory as a disk at the other end of a network: every read takes
// a latency and a share of the bandwidth, as on NFS, Lustre or a network block device.
package testslow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Disk describes a disk. Its numbers must not be 0, but for ReadAhead.
type Disk struct {
	Latency   time.Duration // from a request to its first byte
	Rate      int64         // bytes per second, of all requests together
	AtOnce    int           // requests under way at once; further ones wait
	ReadAhead int           // the kernel's read-ahead, in bytes; only root can set it. 0 leaves the kernel's usual one
}

// Mounted is a disk that is mounted. Its server is a process of its own: a page fault of a
// process in a file that the same process serves may stop all of it.
type Mounted struct {
	command *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Scanner
}

// asServer is the variable with what a program that imports this package serves, and does nothing else.
const asServer = "TENSORFS_TEST_SLOW_DISK"

func init() {
	if text := os.Getenv(asServer); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, "slow disk:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// served is the value of asServer.
type served struct {
	Disk
	Dir, Mountpoint string
}

// serve serves a disk until standard input ends, and answers each line of it with the number of requests that
// were under way at once, at most.
func serve(text string) error {
	var d served
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return err
	}
	server, line, err := d.mount(d.Dir, d.Mountpoint)
	if err != nil {
		return err
	}
	fmt.Println("mounted")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		line.mu.Lock()
		fmt.Println(line.most)
		line.mu.Unlock()
	}
	return server.Unmount()
}

// Mount shows the directory dir at mnt, as a disk.
func (d Disk) Mount(dir, mnt string) (*Mounted, error) {
	text, err := json.Marshal(served{d, dir, mnt})
	if err != nil {
		return nil, err
	}
	c := exec.Command("/proc/self/exe")
	c.Env, c.Stderr = append(os.Environ(), asServer+"="+string(text)), os.Stderr
	ask, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	m := &Mounted{c, ask, bufio.NewScanner(answers)}
	if !m.answers.Scan() {
		return nil, errors.Join(errors.New("there is no FUSE"), m.Unmount())
	}
	return m, nil
}

// Unmount ends the mount and its server.
func (m *Mounted) Unmount() error { return errors.Join(m.ask.Close(), m.command.Wait()) }

// Most returns how many requests were under way at once, at most; 0 if the server has ended.
func (m *Mounted) Most() int {
	most := 0
	if _, err := io.WriteString(m.ask, "\n"); err == nil && m.answers.Scan() {
		most, _ = strconv.Atoi(m.answers.Text())
	}
	return most
}

// mount is Mount in the server.
func (d Disk) mount(dir, mnt string) (*fuse.Server, *line, error) {
	line := &line{disk: d, slots: make(chan struct{}, d.AtOnce)}
	forever := time.Hour
	server, err := fs.Mount(mnt, &node{fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: dir}}, line}, &fs.Options{
		MountOptions: fuse.MountOptions{
			FsName: "slow", DisableSplice: true, MaxWrite: 1 << 20, MaxBackground: 2 * d.AtOnce, AllowOther: syscall.Geteuid() == 0,
			DisabledCapabilities: fuse.CAP_PASSTHROUGH,
			// The requests of a large read past the page cache go out together, as on a disk.
			ExtraCapabilities: fuse.CAP_ASYNC_DIO,
		},
		EntryTimeout: &forever, AttrTimeout: &forever,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := d.setReadAhead(mnt); err != nil {
		return nil, nil, errors.Join(err, server.Unmount())
	}
	return server, line, nil
}

// setReadAhead sets the kernel's read-ahead, which a FUSE server may only reduce.
func (d Disk) setReadAhead(mnt string) error {
	if d.ReadAhead == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(mnt, &st); err != nil {
		return err
	}
	path := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	return os.WriteFile(path, []byte(strconv.Itoa(d.ReadAhead>>10)), 0)
}

// line is the way to the disk.
type line struct {
	disk  Disk
	slots chan struct{}

	mu    sync.Mutex
	free  time.Time // when the bytes of all requests so far have come
	under int       // requests under way
	most  int       // of them at once
}

// wait waits as long as n bytes take.
func (l *line) wait(n int64) {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	l.mu.Lock()
	l.under++
	l.most = max(l.most, l.under)
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.disk.Rate) * 1e9))
	here := l.free.Add(l.disk.Latency)
	l.mu.Unlock()
	time.Sleep(time.Until(here))
	l.mu.Lock()
	l.under--
	l.mu.Unlock()
}

// node is a file or a directory of the disk.
type node struct {
	fs.LoopbackNode
	line *line
}

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{fs.LoopbackNode{RootData: n.RootData}, n.line}
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	file, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	return &handle{file.(*fs.LoopbackFile), n.line}, 0, 0
}

// handle is an open file.
type handle struct {
	*fs.LoopbackFile
	line *line
}

// Read implements fs.FileReader.
func (h *handle) Read(ctx context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	h.line.wait(int64(len(buf)))
	return h.LoopbackFile.Read(ctx, buf, off)
}
