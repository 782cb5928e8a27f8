package tree

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
)

// metadataDir has one file per key.
func metadataDir(metas []tensorfs.Meta) tensorfs.Entries {
	out := make(tensorfs.Entries, 0, len(metas))
	for _, m := range metas {
		out = append(out, tensorfs.Entry{Name: names.Escape(m.Key), Data: tensorfs.NewText(1, func(dst []byte, _ int) []byte { return m.AppendText(dst) })})
	}
	sortEntries(out)
	return out
}
