package cli

import (
	"io"
	"os"
	"strings"
)

// Colour is what a text means to its reader.
type Colour string

// The colours, as codes of a terminal.
const (
	Good    Colour = "32" // green: nothing to do
	Warning Colour = "33" // yellow: worth a look
	Bad     Colour = "31" // red: broken
)

const begin, end = "\x1b[", "\x1b[0m"

// colours takes the codes of all colours out of a text.
var colours = strings.NewReplacer(begin+string(Good)+"m", "", begin+string(Warning)+"m", "", begin+string(Bad)+"m", "", end, "")

// Painter colours texts.
type Painter struct{ on bool }

// PainterOf returns a Painter for texts that are written to w. It colours only on a terminal that has colours, and not if
// NO_COLOR is set (https://no-color.org).
func PainterOf(w io.Writer) Painter {
	return Painter{os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(w)}
}

// Paint returns a text in a colour. "" is the terminal's own.
func (p Painter) Paint(c Colour, text string) string {
	if !p.on || c == "" || text == "" {
		return text
	}
	return begin + string(c) + "m" + text + end
}
