// Package rescue turns a panic into an error, so that one model cannot end a process that
// serves others.
package rescue

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// ErrInternal marks a fault of this program, which a panic showed.
var ErrInternal = errors.New("internal error")

// To is for defer: a panic becomes an error about the model, with its place in the program.
func To(err *error, model string) {
	v := recover()
	if v == nil {
		return
	}
	*err = &tensorfs.FormatError{
		File: model, Offset: -1, Kind: ErrInternal, Problem: fmt.Sprintf("internal error at %s: %s", place(), tensorfs.OneLine(fmt.Sprint(v))),
		Advice: "this is a fault of tensorfs, not of the model: report it, with the model's config.json or header",
	}
}

// Name sets the model of an error that To made where the model was not known.
func Name(err error, model string) {
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok && e.Kind == ErrInternal && e.File == "" {
		e.File = model
	}
}

// place returns the file and line that panicked.
func place() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") || !more {
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
	}
}
