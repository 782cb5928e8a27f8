package cli

import (
	"strings"

	"github.com/tensorfs/tensorfs/internal/conceal"
)

// PublicText is a message without secrets: of addresses among the arguments of the command
// line, however they are written, and of all others.
func PublicText(text string, args []string) string {
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
