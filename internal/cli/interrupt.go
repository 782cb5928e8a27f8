package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible returns a context that Ctrl-C or SIGTERM ends. The next signal ends
// the process, whatever it waits for.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
