package s3

import (
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// endpoint is the server that buckets are at.
type endpoint struct {
	own *url.URL // nil: AWS
}

// ofEnvironment returns the endpoint and the region that the environment names.
func ofEnvironment() (endpoint, string, error) {
	region := firstSet("AWS_REGION", "AWS_DEFAULT_REGION")
	if region == "" {
		region = "us-east-1"
	}
	if !regionName().MatchString(region) {
		return endpoint{}, "", setting("AWS_REGION", tensorfs.Quote(region)+" is not the name of a region")
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
			return endpoint{}, "", setting(name, "it is not an address like https://HOST") // which is not shown: it may hold a password
		}
		return endpoint{u}, region, nil
	}
	return endpoint{}, region, nil
}

func firstSet(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// setting is an error about a variable of the environment.
func setting(name, problem string) error {
	return tensorfs.Unsupported(name, problem, "set it right, or unset it")
}

var (
	// regionName is what regions are called. It becomes part of a host's name, and may
	// come from a server.
	regionName = remote.Pattern(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
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
