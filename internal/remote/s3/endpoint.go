package s3

import (
	"cmp"
	"crypto/x509"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
)

// endpoint is the server that buckets are at.
type endpoint struct {
	own *url.URL // nil: AWS
}

// ofSettings returns the endpoint and the region that the settings of AWS's tools name, and has connections to
// that endpoint verified by the certificates that they name.
func ofSettings(client *web.Client) (endpoint, string, error) {
	settings, err := environ.AWSSettings(environ.Process)
	if err != nil {
		return endpoint{}, "", err
	}
	region, names := cmp.Or(settings.Region, "us-east-1"), anyRegion()
	if settings.Endpoint == "" {
		names = regionName()
	}
	if !names.MatchString(region) {
		return endpoint{}, "", setting("AWS_REGION", tensorfs.Quote(region)+" is not the name of a region")
	}
	if settings.Endpoint == "" {
		return endpoint{}, region, trust(client, strings.TrimPrefix(domain(region), region+"."), settings.CABundle)
	}
	u, err := url.Parse(settings.Endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return endpoint{}, "", setting(settings.EndpointName, "it is not an address like https://HOST") // which is not shown: it may hold a password
	}
	if u.Scheme == "http" {
		return endpoint{u}, region, nil
	}
	return endpoint{u}, region, trust(client, u.Host, settings.CABundle)
}

// maxCertificates bounds a file of certificates.
const maxCertificates = 4 << 20

// trust has connections to a host, and to hosts below its name, verified by the certificates of a file.
func trust(client *web.Client, host, bundle string) error {
	if bundle == "" {
		return nil
	}
	pem, err := source.ReadRegular(bundle, maxCertificates)
	if err != nil {
		return tensorfs.PathError(bundle, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return tensorfs.Unsupported(bundle, "it holds no certificate", "set AWS_CA_BUNDLE, ca_bundle in ~/.aws/config or REQUESTS_CA_BUNDLE right, or unset it")
	}
	client.Trust(host, roots)
	return nil
}

func firstSet(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// setting is an error about a setting of AWS's tools.
func setting(name, problem string) error {
	return tensorfs.Unsupported(name, problem, "set it right, or unset it")
}

var (
	// regionName matches the names of regions. A name becomes part of a host's name, and
	// may come from a server.
	regionName = remote.Pattern(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	// anyRegion is what boto3 takes for a region, such as RegionOne of OpenStack. It becomes part only of signatures.
	anyRegion = remote.Pattern(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	// label is a bucket's name that can be part of a host's name. One with dots would
	// not fit the server's certificate.
	label = remote.Pattern(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)
)

// String names the server for the cache: where a bucket of AWS is makes no
// difference, since it has one place only.
func (e endpoint) String() string {
	if e.own == nil {
		return "aws"
	}
	return strings.TrimSuffix(e.own.Scheme+"://"+e.own.Host+e.own.Path, "/")
}

// address returns where an object is, or the bucket itself for the key "".
func (e endpoint) address(region, bucket, key string) *url.URL {
	u := &url.URL{Scheme: "https", Path: "/" + bucket + "/" + key}
	switch {
	case e.own != nil:
		u.Scheme, u.Host, u.Path = e.own.Scheme, e.own.Host, strings.TrimSuffix(e.own.Path, "/")+u.Path
	case label().MatchString(bucket):
		u.Host, u.Path = bucket+".s3."+domain(region), "/"+key
	default:
		u.Host = "s3." + domain(region)
	}
	if key == "" && u.Path != "/" {
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
	u.RawPath = s3utils.EncodePath(u.Path) // as the signature has it
	return u
}

// domain returns the end of the names of hosts of a region of AWS.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return region + ".amazonaws.com.cn"
	}
	return region + ".amazonaws.com"
}
