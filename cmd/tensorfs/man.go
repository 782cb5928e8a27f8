package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages",
		Long: `man writes a manual page for every command to DIRECTORY, usually the directory
man1 of a manual path. It is for packagers and displays nothing.`,
		Example: `  tensorfs man /usr/local/share/man/man1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("cannot make the directory: %w", err)
			}
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "TENSORFS", Section: "1", Source: "tensorfs", Manual: "tensorfs"}, args[0])
		},
	}
}
