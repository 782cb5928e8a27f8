package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
)

// Patience is how long a command is silent before it shows what it waits for.
const Patience = time.Second

// Notice is a line on a terminal that shows what a command waits for. It is there
// while something takes long, and then taken away.
type Notice struct {
	Forward bool // another process has the terminal; it is told by lines that begin with noted

	mu    sync.Mutex
	w     io.Writer // nil: not a terminal
	text  string
	timer *time.Timer
	drawn bool
}

// Noted begins a line that a server writes to the command that waits for it.
const Noted = "\x00note "

// Begin lets Say draw on w, if that is a terminal, until the end.
func (n *Notice) Begin(w io.Writer) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.w != nil || !n.Forward && !IsTerminal(w) {
		return func() {}
	}
	n.w = w
	if !n.Forward {
		n.timer = time.AfterFunc(Patience, n.draw)
	}
	return n.End
}

// Say sets what is waited for now.
func (n *Notice) Say(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := n.text != text
	n.text = text
	switch {
	case n.w == nil || !changed:
	case n.Forward:
		fmt.Fprintf(n.w, "%s%s\n", Noted, tensorfs.OneLine(text))
	case n.drawn:
		n.print()
	}
}

func (n *Notice) draw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.w == nil:
		return
	case n.text == "": // nothing is waited for yet
		n.timer.Reset(Patience)
		return
	}
	n.drawn = true
	n.print()
}

// print draws the text. The caller holds the lock.
func (n *Notice) print() {
	fmt.Fprint(n.w, "\r\x1b[K"+Shorten(tensorfs.Printable(n.text), Width(n.w)-1)) // failing to draw is not a failure
}

// End takes the line away; nothing is drawn afterwards.
func (n *Notice) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.w == nil {
		return
	}
	if n.timer != nil {
		n.timer.Stop()
	}
	if n.drawn {
		fmt.Fprint(n.w, "\r\x1b[K")
	}
	n.w, n.text, n.drawn = nil, "", false
}
