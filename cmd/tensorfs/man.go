//go:build man

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/cli/manual"
)

// With the tag man the program is a tool for packagers, which writes the manual pages to a directory:
//
//	go run -tags man ./cmd/tensorfs DIRECTORY
func init() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags man ./cmd/tensorfs DIRECTORY")
		os.Exit(cli.ExitUsage)
	}
	s := system(runtime.GOOS)
	book := manual.Book{Root: newRootFor(s), Version: version(), Date: builtFrom().date, Sections: s.text("manual"), Long: long, Groups: grouped}
	if err := book.Write(os.Args[1]); err != nil {
		cli.PrintError(os.Stderr, err, os.Args[1:])
		os.Exit(cli.ExitFailed)
	}
	os.Exit(cli.ExitOK)
}
