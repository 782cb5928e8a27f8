package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Who builds a package sets these with -ldflags "-X main.release=...": otherwise they
// are what the Go tool recorded.
var (
	release string // the version
	commit  string // its full id
	date    string // of the commit, RFC 3339
)

func (s system) version() *cobra.Command {
	return s.command("version", between(0, 0), flags{}, func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		return err
	})
}

// versionLine identifies this tensorfs: "tensorfs 0.1.0 (0123456789ab, 2026-11-22) go1.26.8
// linux/amd64", without unknown parts.
func versionLine() string {
	built := builtFrom()
	id := built.commit[:min(len(built.commit), 12)]
	if built.modified {
		id += ", modified"
	}
	var facts []string
	for _, fact := range []string{id, built.date} {
		if fact != "" {
			facts = append(facts, fact)
		}
	}
	line := "tensorfs " + version()
	if len(facts) > 0 {
		line += " (" + strings.Join(facts, ", ") + ")"
	}
	return fmt.Sprintf("%s %s %s/%s", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the release, else the module's version as the Go tool recorded it: 0.1.0 in
// either case.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "(devel)"
}

// buildFacts are of the sources; empty where nothing is known.
type buildFacts struct {
	commit, date string
	modified     bool
}

func builtFrom() buildFacts {
	recorded := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			recorded[s.Key] = s.Value
		}
	}
	f := buildFacts{commit: cmp.Or(commit, recorded["vcs.revision"]), date: cmp.Or(date, recorded["vcs.time"]), modified: recorded["vcs.modified"] == "true"}
	if t, err := time.Parse(time.RFC3339, f.date); err == nil {
		f.date = t.UTC().Format(time.DateOnly)
	}
	return f
}
