package main

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// printableName is the name of a model, as the user wrote it, for messages: without
// secrets. Errors about other arguments go through publicText.
func printableName(model string) string { return tensorfs.Printable(conceal.Name(model)) }

// publicText is a message without secrets: of addresses among the arguments of the command
// line, however they are written, and of all others.
func publicText(text string, args []string) string {
	names := make([]string, len(args))
	for i, arg := range args {
		_, value, isFlag := strings.Cut(arg, "=")
		if !isFlag || !strings.HasPrefix(arg, "-") {
			value = arg
		}
		names[i] = value
	}
	return conceal.Text(text, names...)
}
