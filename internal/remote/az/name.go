package az

import (
	"net/url"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Scheme begins the names of this package.
const Scheme = "az://"

const (
	usage = "write az://CONTAINER/BLOB or az://ACCOUNT.blob.core.windows.net/CONTAINER/BLOB, with a / at the end for a directory"
	login = "set AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_KEY, AZURE_STORAGE_CONNECTION_STRING or the variables of a service principal (AZURE_CLIENT_ID and so on)"
)

var (
	// accountHost matches the hosts of Microsoft's clouds that have the storage of an account.
	accountHost = remote.Pattern(`^([a-z0-9]{3,24})((?:\.z[0-9]{1,2})?)\.(?:blob|dfs)\.(core\.windows\.net|storage\.azure\.net|core\.usgovcloudapi\.net|core\.chinacloudapi\.cn)$`)
	accountName = remote.Pattern(`^[a-z0-9]{3,24}$`)
	container   = remote.Pattern(`^(\$root|\$web|\$logs|[a-z0-9](-?[a-z0-9]){2,62})$`)
)

// names are the names of blobs and containers.
var names = remote.ObjectScheme{Scheme: Scheme, Bucket: container, MaxKey: 1024, Login: login}

// place is a name, taken apart.
type place struct {
	remote.ObjectName        // its Bucket has the host in front, if the name does
	container         string // without it
	account, host     string // "" if the settings have them
	sas               string // the token that follows the name, "" without one
}

// parse takes a name apart. Errors never have what follows "?".
func parse(name string) (place, error) {
	name, sas, _ := strings.Cut(name, "?")
	rest := strings.TrimPrefix(name, Scheme)
	first, key, _ := strings.Cut(rest, "/")
	var p place
	var m []string
	if before, host, ok := strings.Cut(first, "@"); ok && !strings.Contains(before, ":") {
		if m = accountHost().FindStringSubmatch(host); m != nil {
			first = before
		}
	} else if m = accountHost().FindStringSubmatch(first); m != nil {
		first, key, _ = strings.Cut(key, "/")
	}
	plain := Scheme + first
	if key != "" || strings.HasSuffix(name, "/") {
		plain += "/" + key
	}
	if !strings.Contains(first, "@") && !container().MatchString(first) {
		problem := tensorfs.Quote(first) + " is not the name of a container"
		if strings.Contains(first, ".") {
			problem = tensorfs.Quote(first) + " is neither a container nor the host of an account in Azure"
		}
		return p, tensorfs.Unsupported(name, problem, usage)
	}
	n, err := names.Parse(plain)
	if e, ok := err.(*tensorfs.FormatError); ok && e.Advice != login {
		e.File, e.Advice = name, usage
	}
	if err != nil {
		return p, err
	}
	if strings.ContainsAny(n.Key, "\r\n\\") || slices.ContainsFunc(strings.Split(n.Key, "/"), func(part string) bool { return part == "." || part == ".." }) {
		return p, tensorfs.Unsupported(name, "it is not the name of a blob that can be asked for", usage)
	}
	p = place{ObjectName: n, container: n.Bucket, sas: sas}
	if m != nil {
		p.account, p.host = m[1], m[1]+m[2]+".blob."+m[3]
		p.Bucket = p.host + "/" + n.Bucket
	}
	return p, nil
}

// at returns the name of another blob.
func (p place) at(key string) place {
	p.ObjectName = p.At(key)
	return p
}

// address returns where a blob is or, for the key "", its container.
func address(at url.URL, container, key string) *url.URL {
	path, escaped := at.Path+"/"+container, at.EscapedPath()+"/"+url.PathEscape(container)
	if key != "" {
		path += "/" + key
		for part := range strings.SplitSeq(key, "/") {
			escaped += "/" + url.PathEscape(part)
		}
	}
	return &url.URL{Scheme: at.Scheme, Host: at.Host, Path: path, RawPath: escaped}
}
