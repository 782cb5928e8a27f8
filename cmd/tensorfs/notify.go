package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// notifyReady tells systemd, for a unit with Type=notify, that the mount can be used.
// Without systemd it does nothing. See sd_notify(3).
func notifyReady() error {
	socket := os.Getenv("NOTIFY_SOCKET") // one that begins with @ has no file
	if socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("READY=1"))
	return err
}

// isJournal reports whether systemd connected a writer to its journal. See
// systemd.exec(5), JOURNAL_STREAM.
func isJournal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil {
		return false
	}
	id, ok := st.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", id.Dev, id.Ino)
}
