package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/environ"
)

// remoteFlags are the flags of commands that open models which may be on other
// machines.
type remoteFlags struct {
	offline, ask, download, plainHTTP bool
	cache, scope                      string
	cacheSize                         cli.OptionalSize
	timeout                           time.Duration
	connections                       connections

	stderr  func() io.Writer // for progress
	waiting cli.Notice       // whom a model is asked for
	logger  *slog.Logger     // nil drops messages

	once   sync.Once
	client *remote.Client // of all models of a command; see open
}

// connections is the value of --connections, 0 if it is not given.
type connections int

func (c *connections) String() string {
	if *c == 0 {
		return ""
	}
	return strconv.Itoa(int(*c))
}

func (c *connections) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > remote.MaxConnections {
		return fmt.Errorf("want a number from 1 to %d", remote.MaxConnections)
	}
	*c = connections(n)
	return nil
}

func (c *connections) Type() string { return "N" }

func (f *remoteFlags) add(s system, c *cobra.Command) {
	f.stderr = c.ErrOrStderr
	s.define(c, "", flags{
		"offline": &f.offline, "remote": &f.ask, "cache": &f.cache, "cache-size": &f.cacheSize, "timeout": &f.timeout, "connections": &f.connections,
		"download": &f.download, "plain-http": &f.plainHTTP,
	})
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if f.client != nil {
				f.client.Close()
			}
			if err == nil && f.logger == nil { // a server logs it
				err = f.wrong()
			}
			return err
		}
	}
}

// wrong returns the error of bytes that came and proved to be wrong, perhaps only
// when the model was closed.
func (f *remoteFlags) wrong() error {
	if f.client == nil {
		return nil
	}
	return f.client.Mismatch()
}

// offlineEnv is the variable that means --offline.
const offlineEnv = "TENSORFS_OFFLINE"

// check takes the values of the flags.
func (f *remoteFlags) check() error {
	if f.timeout < 0 {
		return cli.UsageError{Err: fmt.Errorf("--timeout %s: want a time like 30s", f.timeout)}
	}
	if value := os.Getenv(offlineEnv); !environ.IsTrue(value) && !slices.Contains([]string{"", "0", "off", "no", "false"}, strings.ToLower(value)) {
		return cli.UsageError{Err: fmt.Errorf("%s=%s: want 1, which asks no other machine, or 0", offlineEnv, tensorfs.Printable(value))}
	}
	return nil
}

// absolute makes the place of the cache independent of the working directory.
func (f *remoteFlags) absolute() (err error) {
	if dir := cmp.Or(f.cache, os.Getenv("TENSORFS_CACHE")); dir != "" {
		f.cache, err = filepath.Abs(dir)
	}
	return err
}

// maxHost is how much of a host's name is shown, which a server may have redirected to.
const maxHost = 60

// notice begins to say on a terminal whom a model is asked for.
func (f *remoteFlags) notice() (end func()) {
	if f.stderr == nil {
		return func() {}
	}
	return f.waiting.Begin(f.stderr())
}

// open returns what opens the models of a command, wherever they are.
func (f *remoteFlags) open() *remote.Client {
	f.once.Do(func() { f.client = remote.New(f.options()) })
	return f.client
}

// options returns what the flags say.
func (f *remoteFlags) options() remote.Options {
	o := remote.Options{
		CacheDir: f.cache, CacheScope: f.scope, CacheSize: int64(f.cacheSize.ByteSize), Timeout: f.timeout, Connections: int(f.connections), AskFirst: f.ask, Download: f.download, PlainHTTP: f.plainHTTP,
		Agent: "tensorfs/" + version(), Logger: f.logger,
		Asks: func(host string) { f.waiting.Say("asking " + cli.Shorten(host, maxHost) + " ...") },
	}
	if f.offline {
		o.Offline = "--offline"
	}
	if f.cacheSize.Given && o.CacheSize == 0 {
		o.CacheSize = -1
	}
	if f.stderr != nil {
		o.Progress = func(what string, total int64) (func(int64), func()) {
			f.waiting.End() // the bar is more exact
			bar := cli.ProgressLater(f.stderr(), what, total)
			return bar.Add, bar.Clear
		}
	}
	return o
}
