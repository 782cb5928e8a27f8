package main

import (
	"fmt"
	"io"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/report"
)

// metadataInfo is what info --metadata --json prints of a model.
type metadataInfo struct {
	Model    string        `json:"model"`
	Path     string        `json:"path"`
	Metadata []report.Meta `json:"metadata"`
}

// printMetadataOf prints the metadata of a model, or returns it for --json.
func (o *infoOptions) printMetadataOf(stdout io.Writer, m *tensorfs.Model, named string, several bool) (any, error) {
	list, err := describe.Metadata(m, o.metadata)
	if err != nil {
		return nil, err
	}
	switch {
	case o.json:
		return metadataInfo{named, m.Path, list}, nil
	case len(list) == 0 && len(m.Metadata) == 0:
		return nil, fmt.Errorf("%s: it has no metadata", tensorfs.Printable(named))
	case len(list) == 0:
		return nil, fmt.Errorf("%s: no key matches %q; without it all %d are listed", tensorfs.Printable(named), o.metadata, len(m.Metadata))
	}
	if several {
		if _, err := fmt.Fprintf(stdout, "%s\n", cli.Shorten(tensorfs.Printable(named), max(cli.Width(stdout), cli.Narrowest))); err != nil {
			return nil, err
		}
	}
	return nil, describe.PrintMetadata(stdout, list)
}
