package server

import (
	"os"

	"github.com/tensorfs/tensorfs/internal/keep"
)

// notify sends a message to systemd, or to another program that started this one as a service.
func notify(text string) error {
	socket := os.Getenv("NOTIFY_SOCKET") // a name that begins with @ has no file
	if socket == "" {
		return nil
	}
	return keep.Tell(socket, text)
}
