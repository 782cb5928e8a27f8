package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/term"
)

// progress returns a function that draws a bar on a terminal and otherwise does
// nothing, and one that takes the bar away until more is added.
func progress(w io.Writer, what string, total int64) (add func(n int64), end func()) {
	return progressAfter(0, w, what, total)
}

// progressLater is progress for what is mostly done at once: the bar is drawn only
// after a second.
func progressLater(w io.Writer, what string, total int64) (add func(n int64), end func()) {
	return progressAfter(time.Second, w, what, total)
}

func progressAfter(d time.Duration, w io.Writer, what string, total int64) (add func(n int64), end func()) {
	if !term.Is(w) {
		return func(int64) {}, func() {}
	}
	now := time.Now()
	b := &bar{w: w, what: what, total: total, began: now, next: now.Add(d), width: func() int { return term.Width(w) }}
	return b.add, b.clear
}

// counted is progressLater that also says how far it got, to who interrupts it.
type counted struct {
	total int64
	done  atomic.Int64
	draw  func(n int64)
	end   func()
}

func newCounted(w io.Writer, what string, total int64) *counted {
	c := &counted{total: total}
	c.draw, c.end = progressLater(w, what, total)
	return c
}

func (c *counted) add(n int64) {
	c.done.Add(n)
	c.draw(n)
}

// interrupted says how far the work on something got, and what became of it.
func (c *counted) interrupted(what, result string) error {
	return fmt.Errorf("%s: interrupted after %s of %s; %s", what, size(min(c.done.Load(), c.total)), size(c.total), result)
}

// finish ends work on models that ended with err: with an error where it was interrupted,
// or where what was read of them is not what it was.
func (c *counted) finish(ctx context.Context, err error, what, of string, models ...*tensorfs.Model) error {
	c.end()
	if err != nil && ctx.Err() != nil {
		return c.interrupted(what, "of a part of the "+of+" nothing is printed")
	}
	for _, m := range models {
		if err == nil {
			err = sound(ctx, m)
		}
	}
	if changed, ok := errors.AsType[*tensorfs.ChangedError](err); ok {
		return fmt.Errorf("%s: the file changed while it was read; run the command again", tensorfs.Printable(changed.File))
	}
	return err
}

// bar is a line on a terminal that says how far something is.
type bar struct {
	w     io.Writer
	what  string
	total int64
	width func() int // of the terminal in columns, 0 where that is not known
	began time.Time

	mu   sync.Mutex
	done int64
	next time.Time // when it is drawn again
}

// redraw is how often a bar is drawn: often enough to move, too seldom to cost.
const redraw = 100 * time.Millisecond

func (b *bar) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	now := time.Now()
	if now.Before(b.next) {
		return
	}
	b.next = now.Add(redraw)
	fmt.Fprint(b.w, "\r\x1b[K"+b.line(now.Sub(b.began))) // failing to draw a bar is not a failure
}

// clear leaves an empty line, also of a ^C that the terminal has echoed there.
func (b *bar) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprint(b.w, "\r\x1b[K")
	b.next = time.Time{}
}

// cells is how wide the bar itself is.
const cells = 20

// line is the bar after some time:
//
//	verify [########            ]  43 %, 1.2 GiB of 2.7 GiB, 512.0 MiB/s, 3 s left
//
// It leaves out the bar, and then the end, where the terminal is too narrow.
func (b *bar) line(after time.Duration) string {
	part := 1.0
	if b.total > 0 {
		part = min(float64(b.done)/float64(b.total), 1)
	}
	full := int(part * cells)
	drawing := fmt.Sprintf(" [%s%s]", strings.Repeat("#", full), strings.Repeat(" ", cells-full))
	text := fmt.Sprintf(" %3d %%, %s of %s", int(100*part), size(b.done), size(b.total))
	if rate := float64(b.done) / after.Seconds(); after > 0 && rate >= 1 {
		left := time.Duration(float64(max(b.total-b.done, 0)) / rate * float64(time.Second))
		text += fmt.Sprintf(", %s/s, %s left", size(int64(rate)), inWords(left))
	}
	line, width := b.what+drawing+text, b.width()
	if width > 0 && len(line) >= width { // the last column would break the line on some terminals
		line = b.what + text
		line = line[:max(min(len(line), width-1), 0)]
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
