// Package environ reads other programs' settings as those programs read them: where they keep
// models, and the tokens and servers that they use.
//
// A variable that is empty counts as not set. Each function names the program whose rules it follows;
// testdata/settings has what the programs themselves answered.
package environ

import "os"

// Env returns the value of a variable of an environment, "" if it is not set.
type Env func(name string) string

// Place is a directory where another program keeps its models.
type Place struct {
	Path  string
	Known string // the setting that names it, for messages
}

// Process is the environment of this process.
func Process(name string) string { return os.Getenv(name) }
