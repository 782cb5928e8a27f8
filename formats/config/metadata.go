package config

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
)

// MetadataJSON returns metadata.json: one key a line, escaped as a file name, in the
// order of the source.
func MetadataJSON(metas []tensorfs.Meta) *tensorfs.Text {
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
