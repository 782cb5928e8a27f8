package describe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/report"
)

const (
	// firstValues is how many values of an array are shown.
	firstValues = 6
	// longestValue bounds a value in the report and, before it is cut for the screen, in info.
	longestValue = 400
)

// Metadata describes the metadata of a model whose keys a glob matches.
func Metadata(m *tensorfs.Model, glob string) ([]report.Meta, error) {
	list := []report.Meta{}
	for _, x := range m.Metadata {
		ok, err := cli.MatchGlob(glob, x.Key)
		if err != nil {
			return nil, cli.UsageError{Err: err}
		}
		if ok {
			list = append(list, Entry(x))
		}
	}
	return list, nil
}

// Entry describes an entry: its type, and its value as one line.
func Entry(x tensorfs.Meta) report.Meta {
	if a, ok := x.Value.(tensorfs.Array); ok {
		return arrayOf(x.Key, a)
	}
	entry := report.Meta{Key: x.Key, Type: metaType(x.Value)}
	if text, ok := x.Value.(tensorfs.JSON); ok {
		return ofJSON(entry, string(text))
	}
	text := string(bytes.TrimRight(x.AppendText(nil), "\n"))
	entry.Value = shortText(text)
	entry.Cut = entry.Value != text
	return entry
}

// arrayOf describes an array by its length and first values.
func arrayOf(key string, a tensorfs.Array) report.Meta {
	entry := report.Meta{Key: key, Type: "array", Length: a.Len()}
	kinds := "values"
	var first []string
	for v := range a.Values() {
		if len(first) == 0 {
			kinds = metaType(v)
		}
		if len(first) == firstValues {
			entry.Cut = true
			break
		}
		text := string(tensorfs.Meta{Value: v}.AppendJSON(nil))
		first = append(first, shortText(text))
	}
	if a.Len() > 0 && kinds != "values" {
		entry.Type = "array of " + kinds
	}
	if kinds == "string" && a.Len() != 1 {
		kinds = "strings"
	}
	entry.Value = fmt.Sprintf("[%d %s]", a.Len(), kinds)
	if len(first) > 0 {
		entry.Value += " " + strings.Join(first, ", ")
	}
	if entry.Cut {
		entry.Value += ", ..."
	}
	return entry
}

// ofJSON describes a value that is JSON text.
func ofJSON(entry report.Meta, text string) report.Meta {
	var list []json.RawMessage
	switch {
	case strings.HasPrefix(text, "["):
		if json.Unmarshal([]byte(text), &list) != nil {
			break
		}
		entry.Type, entry.Length, entry.Cut = "array", len(list), len(list) > firstValues
		var first []string
		for _, v := range list[:min(len(list), firstValues)] {
			first = append(first, shortText(string(v)))
		}
		entry.Value = strings.TrimSuffix(fmt.Sprintf("[%s] %s", cli.Plural(len(list), "value"), strings.Join(first, ", ")), " ")
		if entry.Cut {
			entry.Value += ", ..."
		}
		return entry
	case strings.HasPrefix(text, `"`):
		var s string
		if json.Unmarshal([]byte(text), &s) == nil {
			text = string(bytes.TrimRight(tensorfs.Meta{Value: s}.AppendText(nil), "\n"))
		}
	}
	entry.Value = shortText(text)
	entry.Cut = entry.Value != text
	return entry
}

// metaType names the type of a value.
func metaType(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float32:
		return "f32"
	case float64:
		return "f64"
	case tensorfs.Array:
		return "array"
	case tensorfs.JSON:
		if v == "" {
			return "json"
		}
		switch v[0] {
		case '{':
			return "object"
		case '[':
			return "array"
		case '"':
			return "string"
		case 't', 'f':
			return "bool"
		case 'n':
			return "null"
		}
		return "number"
	}
	return strings.NewReplacer("uint", "u", "int", "i").Replace(fmt.Sprintf("%T", v))
}

// shortText is a value that is not longer than a line of the report.
func shortText(text string) string {
	if len(text) <= longestValue {
		return text
	}
	return strings.ToValidUTF8(text[:longestValue], "") + "..."
}

// PrintMetadata prints the entries of a model in columns.
func PrintMetadata(stdout io.Writer, list []report.Meta) error {
	w := bufio.NewWriter(stdout)
	width := cli.TableWidth(stdout)
	key, kind := 0, 0
	for _, x := range list {
		key, kind = max(key, cli.Cells(tensorfs.Printable(x.Key))), max(kind, cli.Cells(x.Type))
	}
	key = min(key, max(width/2, 20))
	indent := 0
	if key+2+kind+2+shortestValue > width { // all keys have lines of their own
		key, indent = 0, 2
	}
	for _, x := range list {
		name, value := tensorfs.Printable(x.Key), cli.ShortenEnd(tensorfs.OneLine(x.Value), max(width-max(key+2, indent)-kind-2, shortestValue))
		if cli.Cells(name) > key {
			fmt.Fprintln(w, name)
			name = ""
		}
		if key > 0 {
			name += strings.Repeat(" ", key+2-cli.Cells(name))
		} else {
			name = strings.Repeat(" ", indent)
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s%-*s  %s", name, kind, x.Type, value), " "))
	}
	return w.Flush()
}

// shortestValue is the least that a line shows of a value.
const shortestValue = 12
