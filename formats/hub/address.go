package hub

import (
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs/formats/pick"
)

// publicHub and shortHost are where the public Hub is.
const (
	publicHub = "https://huggingface.co"
	shortHost = "hf.co"
)

// FromAddress returns the name of what a page of the Hub shows, as people copy its
// address from their browser, or of a file that it gives away:
//
//	https://huggingface.co/ORG/NAME
//	https://huggingface.co/ORG/NAME/tree/REVISION/DIRECTORY
//	https://huggingface.co/ORG/NAME/blob/REVISION/FILE     and resolve, raw
//
// endpoint is where the Hub is, "" for the public one. ok is false for all other
// addresses.
func FromAddress(address, endpoint string) (n Name, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Opaque != "" {
		return Name{}, false
	}
	if endpoint == "" {
		endpoint = publicHub
	}
	hub, err := url.Parse(strings.TrimRight(strings.TrimSpace(endpoint), "/"))
	if err != nil || hub.Host == "" || u.Scheme != hub.Scheme {
		return Name{}, false
	}
	if !strings.EqualFold(u.Host, hub.Host) && (endpoint != publicHub || !strings.EqualFold(u.Host, shortHost)) {
		return Name{}, false
	}
	path, ok := strings.CutPrefix(u.EscapedPath(), hub.EscapedPath()+"/")
	if !ok {
		return Name{}, false
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := range parts {
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return Name{}, false
		}
	}
	text := strings.Join(parts[:min(len(parts), 2)], "/")
	if n, err = ParseName(text); err != nil || n.Repository != text && (len(parts) > 2 || n.String() != Prefix+text) {
		return Name{}, false
	}
	switch {
	case len(parts) <= 2: // another server than the Hub's may have files there
		return n, endpoint == publicHub || !isFile(text)
	case len(parts) == 3:
		return Name{}, false
	}
	switch parts[2] {
	case "tree", "commit":
	case "blob", "resolve", "raw":
		if len(parts) == 4 {
			return Name{}, false
		}
	default:
		return Name{}, false
	}
	if n.Revision = parts[3]; n.Revision == "main" {
		n.Revision = ""
	}
	n.Select = pick.Select{Path: strings.Join(parts[4:], "/")}
	again, err := ParseName(strings.TrimPrefix(n.String(), Prefix)) // which checks all parts
	return n, err == nil && again == n
}

// isFile reports whether a name belongs to a model's file.
func isFile(name string) bool {
	return strings.HasSuffix(name, ".gguf") || strings.HasSuffix(name, ".safetensors")
}
