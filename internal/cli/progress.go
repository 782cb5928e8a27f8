package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// ProgressBar counts how far a command is, and shows it as a line on a terminal.
type ProgressBar struct {
	w     io.Writer // a terminal; nil otherwise, and nothing is drawn
	what  string
	total int64
	width func() int // of the terminal in columns, 0 if unknown
	began time.Time

	From  int64        // what was there before
	Moved func() int64 // how much has come since then; nil: the sum of what Add was given

	mu   sync.Mutex
	done int64
	next time.Time // when it is drawn again
}

// Progress returns a bar that is drawn at once.
func Progress(w io.Writer, what string, total int64) *ProgressBar { return newBar(w, what, total, 0) }

// ProgressLater is progress for what is mostly done at once: the bar is drawn only
// after a second.
func ProgressLater(w io.Writer, what string, total int64) *ProgressBar {
	return newBar(w, what, total, time.Second)
}

func newBar(w io.Writer, what string, total int64, after time.Duration) *ProgressBar {
	now := time.Now()
	b := &ProgressBar{what: what, total: total, began: now, next: now.Add(after), width: func() int { return Width(w) }}
	if IsTerminal(w) {
		b.w = w
	}
	return b
}

// Interrupted returns an error with how far the work on something got, and what became of it.
func (b *ProgressBar) Interrupted(what, result string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("%s: interrupted after %s of %s; %s", what, Size(min(b.done, b.total)), Size(b.total), result)
}

// redraw is how often a bar is drawn: often enough to move, too seldom to cost.
const redraw = 100 * time.Millisecond

func (b *ProgressBar) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	now := time.Now()
	if b.w == nil || now.Before(b.next) {
		return
	}
	b.next = now.Add(redraw)
	fmt.Fprint(b.w, "\r\x1b[K"+b.line(now.Sub(b.began))) // failing to draw a bar is not a failure
}

// Clear leaves an empty line, also of a ^C that the terminal has echoed there, until more
// is added.
func (b *ProgressBar) Clear() { b.Above(func() {}) }

// Above clears the line and calls print, which prints lines there. The bar is drawn below them with the next Add.
func (b *ProgressBar) Above(print func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.next = time.Time{}
	}
	print()
}

// cells is how wide the bar itself is.
const cells = 20

// line is the bar after some time:
//
//	verify [########            ]  43 %, 1.2 GiB of 2.7 GiB, 512.0 MiB/s, 3 s left
//
// It leaves out the bar, and then figures from the end, where the terminal is too narrow.
func (b *ProgressBar) line(after time.Duration) string {
	part, done, moved := 1.0, b.done, b.done
	if b.Moved != nil {
		moved = b.Moved()
		done = min(b.From+moved, b.total)
	}
	if b.total > 0 {
		part = min(float64(done)/float64(b.total), 1)
	}
	full := int(part * cells)
	drawing := fmt.Sprintf(" [%s%s]", strings.Repeat("#", full), strings.Repeat(" ", cells-full))
	text := fmt.Sprintf(" %3d %%, %s of %s", int(100*part), Size(done), Size(b.total))
	if rate := float64(moved) / after.Seconds(); after > 0 && rate >= 1 {
		text += fmt.Sprintf(", %s/s", Size(int64(rate)))
		if left := time.Duration(float64(max(b.total-done, 0)) / rate * float64(time.Second)); left.Round(time.Second) > 0 { // what is left may be no bytes
			text += ", " + inWords(left) + " left"
		}
	}
	line, width := b.what+drawing+text, b.width()
	if width > 0 && len(line) >= width { // the last column would break the line on some terminals
		line = b.what + text
		for len(line) >= width {
			end := strings.LastIndexByte(line, ',')
			if end < 0 {
				return line[:max(min(len(line), width-1), 0)]
			}
			line = line[:end]
		}
	}
	return line
}

// inWords prints a time to wait, in two units at most.
func inWords(d time.Duration) string {
	switch s := int64(d.Round(time.Second).Seconds()); {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	default:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	}
}
