package environ

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"gopkg.in/ini.v1"
)

// AWS are the settings of AWS's own tools for S3, as boto3 finds them. A variable counts before the profile.
type AWS struct {
	Profile  string // "" if the user names none
	Region   string // "" if none is set
	Endpoint string // "" for AWS's own servers
	CABundle string // the path of certificates that replace the system's, "" for none

	EndpointName string // the setting that names the endpoint, for messages

	AccessKey, SecretKey, SessionToken string // what the profile itself contains
	Credentials                        string // the setting of the profile that describes how to obtain credentials, "" if missing
}

// RoleARN is the setting of a profile that uses a role's credentials. It overrides the
// profile's own keys.
const RoleARN = "role_arn"

// obtains are the settings of a profile that say how to obtain credentials, in the order in which AWS's tools look at them.
var obtains = []string{RoleARN, "sso_session", "sso_start_url", "login_session", "credential_process"}

// maxSettings bounds a file of settings.
const maxSettings = 1 << 20

// AWSSettings reads the environment and the files of AWS's tools: ~/.aws/config and
// ~/.aws/credentials, or the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE
// name. An error quotes nothing of the files, which hold secrets.
func AWSSettings(env Env) (AWS, error) {
	a := AWS{Profile: cmp.Or(env("AWS_DEFAULT_PROFILE"), env("AWS_PROFILE"))}
	config, err := readAWS(env, "AWS_CONFIG_FILE", "~/.aws/config")
	if err != nil {
		return a, err
	}
	keys, err := readAWS(env, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
	if err != nil {
		return a, err
	}
	profile, named := map[string]string{}, cmp.Or(a.Profile, "default")
	found := addAWS(profile, config, func(section string) bool {
		return section == "default" && named == section || isAWSSection(section, "profile", named)
	})
	if !addAWS(profile, keys, func(section string) bool { return section == named }) && !found && a.Profile != "" {
		return a, tensorfs.Unsupported("AWS_PROFILE", "no file of AWS's tools has the profile "+tensorfs.Quote(a.Profile), "check ~/.aws/config and ~/.aws/credentials")
	}
	a.AccessKey, a.SecretKey, a.SessionToken = profile["aws_access_key_id"], profile["aws_secret_access_key"], profile["aws_session_token"]
	a.Region = cmp.Or(env("AWS_REGION"), env("AWS_DEFAULT_REGION"), profile["region"])
	a.CABundle = cmp.Or(env("AWS_CA_BUNDLE"), profile["ca_bundle"], env("REQUESTS_CA_BUNDLE"))
	for _, name := range obtains {
		if profile[name] != "" {
			a.Credentials = name
			break
		}
	}
	if strings.EqualFold(cmp.Or(env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), profile["ignore_configured_endpoint_urls"]), "true") {
		return a, nil
	}
	for _, from := range []struct {
		name string
		get  func() (string, error)
	}{
		{"AWS_ENDPOINT_URL_S3", func() (string, error) { return env("AWS_ENDPOINT_URL_S3"), nil }},
		{"AWS_ENDPOINT_URL", func() (string, error) { return env("AWS_ENDPOINT_URL"), nil }},
		{"endpoint_url of s3 in ~/.aws/config", func() (string, error) { return serviceEndpoint(config, profile["services"]) }},
		{"endpoint_url in ~/.aws/config", func() (string, error) { return profile["endpoint_url"], nil }},
	} {
		if a.Endpoint, err = from.get(); err != nil || a.Endpoint != "" {
			a.EndpointName = from.name
			break
		}
	}
	return a, err
}

// serviceEndpoint returns the server that a section of services names for S3, "" if it names none or services is "".
func serviceEndpoint(config *ini.File, services string) (string, error) {
	if services == "" {
		return "", nil
	}
	settings := map[string]string{}
	if !addAWS(settings, config, func(section string) bool { return isAWSSection(section, "services", services) }) {
		return "", tensorfs.Unsupported("services in ~/.aws/config", "there is no section services "+tensorfs.Quote(services), "add the section, or take the line out")
	}
	for line := range strings.Lines(settings["s3"]) {
		switch name, value, ok := strings.Cut(line, "="); {
		case ok && strings.TrimSpace(name) == "endpoint_url":
			return strings.TrimSpace(value), nil
		case !ok && strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#"):
			return "", tensorfs.Unsupported("s3 in the services of ~/.aws/config", "it has a line that is not NAME = VALUE", "write its settings below it, each in an indented line")
		}
	}
	return "", nil
}

// readAWS reads one of the two files. A missing file is an empty one.
func readAWS(env Env, variable, path string) (*ini.File, error) {
	path, err := Expand(cmp.Or(env(variable), path), env)
	if err != nil {
		return ini.Empty(), nil // without a home directory there is no file
	}
	text, err := source.ReadRegular(path, maxSettings)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ini.Empty(), nil
	case err != nil:
		return nil, tensorfs.PathError(path, err)
	}
	file, err := ini.LoadSources(ini.LoadOptions{
		AllowPythonMultilineValues: true, IgnoreInlineComment: true, InsensitiveKeys: true, AllowNonUniqueSections: false, PreserveSurroundedQuote: true,
	}, text)
	if err != nil { // the library's text may quote a line
		return nil, tensorfs.Unsupported(path, "it is not a file of AWS's settings", "check it with 'aws configure list'")
	}
	return file, nil
}

// addAWS adds the keys of the sections that a profile has, and reports whether there are any.
func addAWS(to map[string]string, file *ini.File, has func(section string) bool) (found bool) {
	for _, s := range file.Sections() {
		if has(s.Name()) {
			found = true
			for name, value := range s.KeysHash() {
				to[name] = value
			}
		}
	}
	return found
}

// isAWSSection reports whether a section's header is KIND NAME. The name may be quoted.
// Like botocore it accepts names of several words only in quotes.
func isAWSSection(section, kind, name string) bool {
	rest, ok := strings.CutPrefix(section, kind)
	bare := strings.TrimSpace(rest)
	if !ok || bare == rest {
		return false
	}
	if n := len(bare); n > 1 && (bare[0] == '"' || bare[0] == '\'') && bare[n-1] == bare[0] {
		return bare[1:n-1] == name
	}
	return bare == name && !strings.ContainsAny(bare, " \t")
}
