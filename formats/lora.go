package formats

import (
	"cmp"
	"path"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/internal/source"
)

// OpenAdapter opens an adapter as a user names it: ADAPTER, or ADAPTER:SCALE with the number
// by which its changes are multiplied. ADAPTER is a path or a name that Open takes; see
// [CutScale]. The caller closes the model.
func (o Options) OpenAdapter(named string) (*tensorfs.Model, tensorfs.Adapter, error) {
	return OpenAdapter(named, source.Exists, o.Open)
}

// OpenAdapter is the method of that name for paths that are found, and models that are opened,
// in another way.
func OpenAdapter(named string, exists func(path string) bool, open func(name string) (*tensorfs.Model, error)) (*tensorfs.Model, tensorfs.Adapter, error) {
	name, scale := CutScale(named, exists)
	m, err := open(name)
	at := name
	if err == nil {
		at = cmp.Or(m.Name, m.Path)
	}
	if err != nil || !adapter.Is(m) { // what else is in its folder may have been opened
		dir := name
		if err == nil && IsName(name) {
			dir = m.Path
		}
		if !IsName(dir) && exists(path.Join(dir, adapter.ConfigName)) {
			for _, weights := range []string{adapter.WeightsName, adapter.MLXWeightsName} {
				if !exists(path.Join(dir, weights)) {
					continue
				}
				if err == nil {
					m.Close()
				}
				m, err = open(path.Join(dir, weights))
				break
			}
		}
	}
	if err != nil {
		return nil, tensorfs.Adapter{}, err
	}
	if _, err := adapter.Of(m); err != nil { // before anything is done with the base
		m.Close()
		return nil, tensorfs.Adapter{}, err
	}
	return m, tensorfs.Adapter{Source: at, Scale: scale}, nil
}

// CutScale splits ADAPTER:SCALE. A path that exists as it is written has no scale; behind a
// name of the Hub, or of a registry, one needs a selection before it, as an empty one is:
// hf:ORG/NAME::0.5. Without a scale it is 1.
func CutScale(named string, exists func(path string) bool) (name string, scale float64) {
	if !IsName(named) && exists(named) {
		return named, 1
	}
	at := strings.LastIndexByte(named, ':')
	if at < 1 {
		return named, 1
	}
	scale, ok := decimal(named[at+1:])
	if name = named[:at]; !ok || IsName(named) && !mayEnd(name) {
		return named, 1
	}
	if IsName(name) {
		name = strings.TrimSuffix(name, ":")
	}
	return name, scale
}

// mayEnd reports whether what follows the next colon of a name is no part of it.
func mayEnd(name string) bool {
	for _, prefix := range []string{hub.Prefix, ModelScope} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return strings.Contains(rest, ":") || strings.Count(rest, "/") > 1
		}
	}
	_, rest, ok := strings.Cut(name, "://")
	_, file, found := strings.Cut(rest, "/")
	if strings.HasPrefix(name, "oci:") { // where a tag follows a colon
		return ok && strings.Contains(file, ":")
	}
	return ok && found
}

// decimal returns a finite decimal number.
func decimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}
