package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/keep"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A server is a process that serves the mount of a key.
type server struct {
	key      string
	serves   attributes
	secrets  secrets // those it has; a server that an earlier driver started has others than these
	keeps    bool    // a keeper has its mount
	began    time.Time
	delay    time.Duration // what the next one waits, if this one ends
	users    int           // calls that are about to bind it; guarded by the lock of its key
	stopping bool          // as well

	pid   int           // 0 before it has started
	ready chan struct{} // closed when it is known whether it mounts
	err   error         // why it does not; to be read after ready
	ended chan struct{} // closed when the process is gone

	printed string        // its last message; to be read after logged
	logged  chan struct{} // closed when no message comes any more

	warming sync.Once
	warmed  chan struct{} // closed when all is read, for a server that was started without --warm
	warmErr error
}

// isReady reports whether it mounted.
func (s *server) isReady() bool { return !s.isStarting() && s.err == nil }

func (s *server) isStarting() bool {
	select {
	case <-s.ready:
		return false
	default:
		return true
	}
}

func (s *server) isGone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// A fleet is all servers of a node.
type fleet struct {
	dir       layout
	program   string    // tensorfs
	flags     []string  // of all servers
	cacheSize int64     // of the node's cache in bytes; 0 where nothing was said
	local     string    // the directory of the node whose models may be named by paths; "" for none
	keeper    string    // the socket; "" for none
	since     time.Time // when this driver began
	linger    time.Duration
	log       *slog.Logger
	output    func(key, line string) // takes what servers say
	counters  *counters

	targets locks // taken first
	keys    locks

	mu  sync.Mutex
	all map[string]*server // that run or start
}

func (f *fleet) running(key string) *server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[key]
}

// servers returns them in the order of their keys.
func (f *fleet) servers() []*server {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*server
	for _, s := range f.all {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(a.key, b.key) })
	return all
}

// status asks a server how it is.
func (f *fleet) status(key string) (fs.Status, error) {
	var s fs.Status
	m := mounts.Mount{Mountpoint: f.dir.mount(key)}
	err := m.Ask(&s)
	return s, err
}

// statusOrOrphan asks a server for its status, and concurrently the keeper whether there is
// one: a mount without a server does not answer.
func (f *fleet) statusOrOrphan(key string) (st fs.Status, orphan bool, err error) {
	if f.isOrphan(key) {
		return st, true, nil
	}
	type answer struct {
		fs.Status
		error
	}
	c := make(chan answer, 1)
	go func() {
		st, err := f.status(key)
		c <- answer{st, err}
	}()
	for tick := time.NewTicker(orphanTick); ; {
		select {
		case a := <-c:
			tick.Stop()
			return a.Status, a.error != nil && f.isOrphan(key), a.error
		case <-tick.C:
			if f.isOrphan(key) { // it ended a moment ago
				tick.Stop()
				return st, true, nil
			}
		}
	}
}

// orphanTick is how often the keeper is asked.
const orphanTick = 20 * time.Millisecond

// get returns the server of a key, which runs or starts. The lock of the key is held. The
// caller calls release later.
func (f *fleet) get(key string, a attributes, sec secrets, warm bool) (*server, error) {
	s, follows, err := f.current(key, a)
	if err == nil && s == nil {
		s, err = f.start(key, a, sec, warm, follows)
	}
	if err != nil {
		return nil, err
	}
	s.users++
	return s, nil
}

func (f *fleet) newServer(key string, a attributes, sec secrets) *server {
	return &server{
		key: key, serves: a.served(), secrets: sec, began: time.Now(),
		ready: make(chan struct{}), ended: make(chan struct{}), logged: make(chan struct{}), warmed: make(chan struct{}),
	}
}

func (f *fleet) add(s *server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[s.key] = s
}

// environment are the variables that servers get. They exclude this process's credentials,
// which are not for users who name models.
var environment = []string{
	"PATH", "TZ", "HF_ENDPOINT", "MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION",
	"AWS_EC2_METADATA_DISABLED", "NO_GCE_CHECK", "AZURE_TOKEN_CREDENTIALS",
	"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"KUBERNETES_SERVICE_HOST", "GOMEMLIMIT", "GOGC", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
}

// noIdentity keeps the node's identity from users who name models: their secrets are the only
// credentials, unless the driver's own variables say otherwise.
var noIdentity = []string{"AWS_EC2_METADATA_DISABLED=true", "NO_GCE_CHECK=1", "AZURE_TOKEN_CREDENTIALS=EnvironmentCredential"}

// settings begins the names of variables that are for tensorfs itself.
const settings = "TENSORFS_"

// keeperTime is how long a new driver waits for the keeper: when a node starts, both start
// together, and a server that began without the keeper stays without it.
const keeperTime = 30 * time.Second

// awaitKeeper returns why there is no keeper.
func (f *fleet) awaitKeeper() error {
	for {
		_, err := keep.List(f.keeper)
		if err == nil || time.Since(f.since) > keeperTime {
			return err
		}
		time.Sleep(orphanTick)
	}
}

// environ returns the environment of a server: what it inherits from the driver comes last, and counts.
func (f *fleet) environ(key string) []string {
	env := append([]string{"HOME=" + string(f.dir), "XDG_RUNTIME_DIR=" + f.dir.run(), "NOTIFY_SOCKET=" + f.dir.notify(key)}, noIdentity...)
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(environment, name) || strings.HasPrefix(name, settings) {
			env = append(env, kv)
		}
	}
	return env
}

// start starts a server, which may follow one that left its mount. The lock of the key is held.
func (f *fleet) start(key string, a attributes, sec secrets, warm, follows bool) (*server, error) {
	s := f.newServer(key, a, sec)
	if err := os.Mkdir(f.dir.mount(key), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	cmd := exec.Command(f.program, f.arguments(s, a, warm)...)
	cmd.Dir = "/"
	cmd.Env = f.environ(key)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c, err := f.open(key, sec)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = c.log, c.log
	err = cmd.Start()
	c.log.Close()
	if err != nil {
		c.close()
		return nil, fmt.Errorf("cannot start a server: %w", err)
	}
	s.pid = cmd.Process.Pid
	if err := beKilledFirst(s.pid); err != nil {
		f.log.Warn("the kernel may end this driver before its servers when memory is short", "error", err)
	}
	f.add(s)
	f.log.Info("started a server", "key", key, "model", a.public(), "pid", s.pid)
	f.watch(s, cmd, c, sec, follows)
	fault("started")
	return s, nil
}

// arguments returns the command line of a server. It waits for the keeper, and notes whether the keeper will have the mount.
func (f *fleet) arguments(s *server, a attributes, warm bool) []string {
	args := append([]string{"mount", "-f", "--allow-other", "--cache=" + f.dir.cache(), "--log=" + f.dir.log(s.key)}, f.flags...)
	// What was checked when a volume was published may have become a link since: the server checks what it opens.
	args = append(args, "--inside="+cmp.Or(f.local, f.dir.empty()))
	if f.keeper != "" {
		if err := f.awaitKeeper(); err == nil {
			args, s.keeps = append(args, "--takeover="+f.keeper), true
		} else {
			f.log.Warn("the mount will not outlive its server", "key", s.key, "error", err)
		}
	}
	if warm {
		args = append(args, "--warm")
	}
	if s.secrets.line != nil {
		args = append(args, "--secrets="+f.dir.secrets(s.key))
	}
	return append(append(args, a.flags()...), "--", a["model"], f.dir.mount(s.key))
}

// channels carry a server's messages and its secrets. The pipes are open for reading and writing, so that the server never
// sees a closed one, which would end it.
type channels struct {
	log     *os.File
	secrets *os.File // nil without
	said    notifier
}

// open makes the channels of a server.
func (f *fleet) open(key string, sec secrets) (c channels, err error) {
	pipe := func(path string) (*os.File, error) {
		if err := makePipe(path); err != nil {
			return nil, err
		}
		return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	}
	if c.log, err = pipe(f.dir.log(key)); err != nil {
		return c, err
	}
	if sec.line != nil {
		c.secrets, err = pipe(f.dir.secrets(key))
	}
	if err == nil {
		c.said, err = listen(f.dir.notify(key))
	}
	if err != nil {
		c.log.Close()
		c.close()
	}
	return c, err
}

// close closes the channels except the log.
func (c *channels) close() {
	if c.secrets != nil {
		c.secrets.Close()
	}
	if c.said.UnixConn != nil {
		c.said.Close()
	}
}

// watch follows a server that was started: its log, whether it takes its secrets, when it is ready, and its end.
func (f *fleet) watch(s *server, cmd *exec.Cmd, c channels, sec secrets, follows bool) {
	go f.readLog(s)
	if c.secrets != nil {
		go func() { // a pipe holds less than some secrets
			if err := sec.write(c.secrets); err != nil {
				f.log.Warn("the server does not take its secrets", "key", s.key, "error", err)
			}
			select {
			case <-s.ready:
			case <-s.ended:
			}
			c.secrets.Close()
		}()
	}
	go func() {
		s.err = c.said.wait(func() string { <-s.logged; return s.printed })
		c.said.Close()
		close(s.ready)
		if s.err == nil {
			f.counters.starts.Observe(time.Since(s.began).Seconds())
			if follows {
				f.countTakeover(s)
			}
		}
	}()
	go func() {
		err := cmd.Wait()
		c.said.end(err)
		<-s.ready
		f.hasEnded(s)
	}()
}

// beKilledFirst has the kernel end a server before this process when memory is short: it is started again then.
func beKilledFirst(pid int) error {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return err
	}
	var own int
	if _, err := fmt.Sscan(string(b), &own); err != nil {
		return err
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), fmt.Appendln(nil, min(own+100, 1000)), 0)
}

// wait waits until it is known whether a server mounts.
func (s *server) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.err
	case <-ctx.Done():
		return status.Errorf(codes.DeadlineExceeded, "%s is still being opened", s.serves.public())
	}
}

// release undoes get, with the lock of the key held.
func (f *fleet) release(s *server) {
	s.users--
	f.retire(s.key)
}

const (
	// longLife is how long a server runs that does not end for a reason that ends the next one too.
	longLife = time.Minute
	maxDelay = time.Minute
)

// hasEnded runs when the process of a server is gone.
func (f *fleet) hasEnded(s *server) {
	f.mu.Lock()
	if f.all[s.key] == s {
		delete(f.all, s.key)
	}
	stopping, delay := s.stopping, s.delay
	f.mu.Unlock()
	close(s.ended)
	if s.err != nil || stopping {
		return
	}
	f.log.Warn("a server is gone", "key", s.key, "model", s.serves.public(), "pid", s.pid)
	next := min(max(2*delay, time.Second), maxDelay)
	if time.Since(s.began) > longLife {
		delay, next = 0, 0
	}
	time.AfterFunc(delay, func() { f.revive(s.key, s, next) })
}

// stopTime is how long a server may take for each way of ending it.
const stopTime = 5 * time.Second

// stop ends the server of a key and removes what it leaves. The lock of the key is held.
func (f *fleet) stop(key string) {
	mountpoint := f.dir.mount(key)
	s := f.running(key)
	if s == nil { // of an earlier driver
		found, _, err := f.findRunning(key, attributes{})
		if err != nil {
			f.log.Warn("a server cannot be found to end it", "key", key, "error", err)
		}
		s = found
	}
	if s != nil {
		f.mu.Lock()
		s.stopping = true
		f.mu.Unlock()
	}
	if err := detachAll(mountpoint); err != nil {
		f.log.Error("a mount cannot be removed", "key", key, "error", err)
		return
	}
	if s != nil {
		for _, signal := range []syscall.Signal{0, unix.SIGTERM, unix.SIGKILL} {
			if signal != 0 && !s.isGone() {
				_ = unix.Kill(s.pid, signal) // it may be gone by now
			}
			select {
			case <-s.ended:
			case <-time.After(stopTime):
				continue
			}
			break
		}
		f.log.Info("stopped a server", "key", key, "model", s.serves.public(), "pid", s.pid)
	}
	f.clean(key)
}

// clean removes what a server needed.
func (f *fleet) clean(key string) {
	for _, path := range []string{f.dir.secrets(key), f.dir.log(key), f.dir.notify(key), f.dir.mount(key)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			f.log.Warn("something is left of a server", "error", err)
		}
	}
}

// retire stops the server of a key after a while, unless it is used. The lock of the key is held.
func (f *fleet) retire(key string) {
	if s := f.running(key); s != nil && s.users > 0 || f.isUsed(key) {
		return
	}
	time.AfterFunc(f.linger, func() {
		unlock, err := f.keys.lock(context.Background(), key)
		if err != nil {
			return
		}
		defer unlock()
		switch s := f.running(key); {
		case s != nil && s.users > 0 || f.isUsed(key):
		case s != nil && s.isStarting(): // a call gave up waiting for it, and may come again
			go f.retireStarted(s)
		default:
			f.stop(key)
		}
	})
}

// retireStarted retires a server once it is known whether it mounts.
func (f *fleet) retireStarted(s *server) {
	<-s.ready
	unlock, err := f.keys.lock(context.Background(), s.key)
	if err != nil {
		return
	}
	defer unlock()
	f.retire(s.key)
}

// isUsed reports whether a volume is bound to a server, or about to be. What cannot be read might say so.
func (f *fleet) isUsed(key string) bool {
	all, err := f.dir.records()
	return err != nil || len(recordsOf(all, key)) > 0
}

// defaultProgram is the tensorfs beside this program, else the one in PATH.
func defaultProgram() string {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "tensorfs")
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return "tensorfs"
}
