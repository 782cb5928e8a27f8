package tree

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/fs"
)

// metadataDir has one file per key.
func metadataDir(metas []tensorfs.Meta) fs.Entries {
	out := make(fs.Entries, 0, len(metas))
	for _, m := range metas {
		out = append(out, fs.Entry{Name: names.Escape(m.Key), Data: tensorfs.NewText(1, func(dst []byte, _ int) []byte { return m.AppendText(dst) })})
	}
	sortEntries(out)
	return out
}

// metadataJSON has the same keys as metadataDir, in the order of the source.
func metadataJSON(metas []tensorfs.Meta) *tensorfs.Text {
	return tensorfs.NewText(len(metas)+1, func(dst []byte, i int) []byte {
		switch {
		case i == len(metas) && i == 0:
			return append(dst, "{}\n"...)
		case i == len(metas):
			return append(dst, "\n}\n"...)
		case i == 0:
			dst = append(dst, "{\n"...)
		default:
			dst = append(dst, ",\n"...)
		}
		dst = append(tensorfs.AppendJSONString(dst, names.Escape(metas[i].Key)), ": "...)
		return metas[i].AppendJSON(dst)
	})
}
