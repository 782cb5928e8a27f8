// Release makes what belongs to a release besides packages and wheels: an archive of the
// sources, a directory that is a proxy of Go modules, a container image and a list of
// parts. The same sources and versions give the same bytes. scripts/release runs it from
// the top of the clone.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

const module = "github.com/tensorfs/tensorfs"

// facts are of the release, and the same for all that is made.
type facts struct {
	version   string    // as packages have it: 0.1.0, 0.1.0~rc1
	goVersion string    // as modules have it: v0.1.0, v0.1.0-rc1
	commit    string    // its full id
	date      time.Time // of the commit
}

// parts is what can be made: it goes to a path, and is made of the other arguments.
var parts = map[string]func(f facts, to string, of []string) error{
	"source":    source,            // FILE.tar.gz
	"module":    proxy,             // DIRECTORY
	"image":     plainImage.image,  // FILE.tar PLATFORM=PREFIX...
	"image-csi": driverImage.image, // FILE.tar PLATFORM=PREFIX...
	"sbom":      sbom,              // FILE.json PROGRAM...
}

func main() {
	var f facts
	var seconds int64
	flag.StringVar(&f.version, "version", "", "the version, as packages have it")
	flag.StringVar(&f.goVersion, "go-version", "", "the version, as modules have it")
	flag.StringVar(&f.commit, "commit", "", "the id of the commit")
	flag.Int64Var(&seconds, "date", 0, "when that was made, in seconds since 1970")
	flag.Parse()
	f.date = time.Unix(seconds, 0).UTC()
	part := parts[flag.Arg(0)]
	if part == nil || flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: release FLAGS source|module|image|image-csi|sbom TO [OF...]")
		os.Exit(2)
	}
	if err := part(f, flag.Arg(1), flag.Args()[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

// write makes a file of what a function writes. One that fails leaves none.
func write(path string, content func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = content(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
