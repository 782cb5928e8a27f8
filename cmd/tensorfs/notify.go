package main

import (
	"net"
	"os"
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
