package fs

import (
	"testing"
)

func serverOption(o *Options, key, value string) error { return nil }
func serverCommand(s *Server, line string) string      { return "" }

func TestMountReads(t *testing.T) {
	s := serve(t, "model", newModel(t, 5<<20))
	s.run("readall", s.mountpoint, s.sizeArg())
}
