package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Serve mounts and answers requests until the mount is gone.
func (s *Spec) Serve(stdout, stderr io.Writer, open func(*slog.Logger) (*Content, error)) (err error) {
	if s.Background {
		ignoreHangups()
	} else {
		defer func() {
			if err != nil {
				_ = NotifyFailed(err) // the program that started it sees that it ended
			}
		}()
	}
	signals := newCaught()
	stdout, stderr = signals.messagesTo(stdout), signals.messagesTo(stderr)
	logger, closeLog, err := s.logger(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	opened := memlimit.Opening()
	defer opened()
	if s.Backend == mounts.BackendFUSE { // the kernel keeps what it gets, which an NFS server's clients need not
		source.ReadDirect(StreamMemory)
	}
	keeper, err := s.keeper()
	if err != nil {
		return err
	}
	if err := s.takeSecrets(logger); err != nil {
		return errors.Join(err, fs.Abandon(keeper, s.Mountpoint, logger))
	}
	c, err := open(logger)
	if err != nil {
		return errors.Join(err, fs.Abandon(keeper, s.Mountpoint, logger)) // readers would get no answers otherwise
	}
	defer c.Close()
	signals.catch(s.Background)
	warmer := newWarmer(c)
	o := c.Options
	o.MakeMountpoint, o.NonEmpty, o.AllowOther, o.Extra = !s.NoMkdir, s.NonEmpty, s.AllowOther, s.Extra
	o.Logger, o.Debug, o.Unwatched, o.Warm = logger, s.Debug, source.Unwatched, warmer.status()
	o.ReadAheadKiB, o.NoPassthrough = s.ReadAhead, s.NoPassthrough
	if keeper != nil && c.Identity != nil {
		o.Keeper = keeper
		if o.Identity, err = c.Identity(); err != nil {
			return errors.Join(err, fs.Abandon(keeper, s.Mountpoint, logger))
		}
	}
	server, err := Backends[s.Backend](c, s.Mountpoint, o)
	if err != nil {
		if errors.Is(err, mounts.ErrMounted) {
			err = fmt.Errorf("%w; tensorfs umount %s frees it", err, tensorfs.Printable(s.Mountpoint))
		}
		return err
	}
	logger = server.Logger()
	for _, w := range c.Warnings() {
		logger.Warn(w)
	}
	if s.Background {
		if err := announce(signals); err != nil {
			logger.Error("the mount command is gone; removing the mount", "err", err)
			if uerr := server.UnmountLazy(); uerr != nil {
				return errors.Join(err, uerr)
			}
			server.Wait()
			return err
		}
	} else {
		if err := notifyReady(); err != nil {
			logger.Warn("systemd cannot be told that the mount is ready", "err", err)
		}
		fmt.Fprintln(stdout, s.where(server))
	}
	opened()
	debug.FreeOSMemory()
	go handleSignals(signals, server, logger)
	stop := warmer.start(logger)
	server.Wait()
	stop()
	return nil
}

// where reports where a model that is served in the foreground can be found.
func (s *Spec) where(server Served) string {
	if n, ok := server.(*nfsServed); ok && s.Mountpoint == "" {
		return n.url()
	}
	return fmt.Sprintf("%s is mounted at %s; Ctrl-C unmounts", conceal.Printable(s.Model), tensorfs.Printable(s.Mountpoint))
}
