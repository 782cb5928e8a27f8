package server

import (
	"errors"
	"io"

	"github.com/tensorfs/tensorfs/fs"
)

var errNoKeeper = errors.New("only on Linux a mount outlives its server; here a mount of --backend nfs goes on when the model is mounted there again")

func Keep(string, io.Writer) error { return errNoKeeper }

func (s *Spec) WarnUnkept(io.Writer) {}

func (s *Spec) keeper() (fs.Keeper, error) {
	if s.Takeover != "" {
		return nil, errNoKeeper
	}
	return nil, nil
}
