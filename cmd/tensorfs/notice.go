package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// patience is how long a command is silent before it reports what it waits for.
const patience = time.Second

// notice is a line on a terminal about what a command waits for. It is shown while
// something takes long, and then erased.
type notice struct {
	forward bool // another process has the terminal; it is told by lines that begin with noted

	mu    sync.Mutex
	w     io.Writer // nil if it is not a terminal
	text  string
	timer *time.Timer
	drawn bool
}

// noted begins a line that a server writes to the command that waits for it.
const noted = "\x00note "

// begin lets say draw on w, if that is a terminal, until the end.
func (n *notice) begin(w io.Writer) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.w != nil || !n.forward && !cli.IsTerminal(w) {
		return func() {}
	}
	n.w = w
	if !n.forward {
		n.timer = time.AfterFunc(patience, n.draw)
	}
	return n.end
}

// say is what is waited for now.
func (n *notice) say(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := n.text != text
	n.text = text
	switch {
	case n.w == nil || !changed:
	case n.forward:
		fmt.Fprintf(n.w, "%s%s\n", noted, tensorfs.OneLine(text))
	case n.drawn:
		n.print()
	}
}

func (n *notice) draw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.w == nil:
		return
	case n.text == "": // no server was asked yet
		n.timer.Reset(patience)
		return
	}
	n.drawn = true
	n.print()
}

// print draws the text. The caller holds the lock.
func (n *notice) print() {
	fmt.Fprint(n.w, "\r\x1b[K"+cli.Shorten(tensorfs.Printable(n.text), cli.Width(n.w)-1)) // failing to draw is not a failure
}

// end takes the line away; nothing is drawn afterwards.
func (n *notice) end() {
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
