package ms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Prefix begins the names of models of ModelScope.
const Prefix = "ms:"

// Options say how names are looked up.
type Options = remote.Options

const (
	tokenSetting = "MODELSCOPE_API_TOKEN"
	publicServer = "https://modelscope.cn"
	mainBranch   = "master"
)

// Limits of listings.
const (
	maxEntries = 100_000
	maxListing = 64 << 20
)

// server is ModelScope as it is asked for one name.
type server struct {
	o    Options
	at   *url.URL
	name string // for messages
	repo string
}

// file is a file of a repository.
type file struct {
	Path   string
	Size   int64
	SHA256 string `json:",omitempty"` // hex; "" if none is stated
	Commit string // that changed it last, or the revision if none is stated
	Time   time.Time
}

// fileList is what a name was, as it is pinned.
type fileList struct{ Files []file }

// Open finds the files of a repository's revision. Errors are one line, without anything secret.
func Open(ctx context.Context, repository, revision string, o Options) (*remote.Listing, error) {
	s := &server{o: o, name: Prefix + repository, repo: repository}
	if revision != "" {
		s.name += "@" + revision
	}
	org, name, ok := strings.Cut(repository, "/")
	if !ok || !namePart().MatchString(org) || !namePart().MatchString(name) {
		return nil, tensorfs.Unsupported(s.name, "it is not a name that ModelScope may have", "write it as ms:ORG/NAME or ms:ORG/NAME@REVISION")
	}
	var err error
	if s.at, err = endpoint(o.Getenv); err != nil {
		return nil, err
	}
	if _, err := s.token(); err != nil {
		return nil, err
	}
	q := remote.Question[fileList]{Name: s.name, Who: "ModelScope", Offline: o.Offline, Ask: func(ctx context.Context) (fileList, error) {
		ctx, cancel := o.Client.Within(ctx)
		defer cancel()
		files, err := s.list(ctx, cmp.Or(revision, mainBranch))
		return fileList{files}, err
	}}
	q.Kept, q.Keep = remote.Kept[fileList](o.Store, fmt.Sprintf("%s%s@%s at %s", Prefix, repository, cmp.Or(revision, mainBranch), s.at))
	a, err := q.Answer(ctx)
	if err != nil {
		return nil, err
	}
	return s.listing(a)
}

// namePart matches the parts of a repository's name.
var namePart = remote.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// endpoint returns the server that is asked.
func endpoint(getenv func(string) string) (*url.URL, error) {
	setting, given := "MODELSCOPE_ENDPOINT", strings.TrimSpace(getenv("MODELSCOPE_ENDPOINT"))
	if given == "" {
		setting, given = "MODELSCOPE_DOMAIN", strings.TrimSpace(getenv("MODELSCOPE_DOMAIN"))
		if given != "" && !strings.Contains(given, "://") {
			given = "https://" + given
		}
	}
	u, err := url.Parse(strings.TrimRight(cmp.Or(given, publicServer), "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, tensorfs.Unsupported(setting, "it is not an address like "+publicServer, "set it right, or unset it") // which is not shown: it may hold a password
	}
	return u, nil
}

// token returns the token as it is now, "" without one.
func (s *server) token() (string, error) {
	t := strings.TrimSpace(s.o.Getenv(tokenSetting))
	if strings.ContainsFunc(t, func(c rune) bool { return c <= ' ' || c > '~' || c == ';' || c == '"' || c == '\\' || c == ',' }) {
		return "", tensorfs.Unsupported(tokenSetting, "it contains characters that a token cannot have, such as blanks", "copy it again from ModelScope's page")
	}
	return t, nil
}

// request returns a GET, with the token as a header and as a cookie: ModelScope's own client sends
// both, because some of its addresses know only the cookie.
func (s *server) request(ctx context.Context, what string, query url.Values) (*http.Request, error) {
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at.String()+"/api/v1/models/"+s.repo+"/"+what+"?"+query.Encode(), nil)
	if err == nil && token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
		req.AddCookie(&http.Cookie{Name: "m_session_id", Value: token})
	}
	return req, err
}

// list asks for the files of a revision.
func (s *server) list(ctx context.Context, revision string) ([]file, error) {
	query := url.Values{"Revision": {revision}, "Recursive": {"True"}}
	resp, body, err := s.o.Client.Do(ctx, maxListing, func(ctx context.Context) (*http.Request, error) { return s.request(ctx, "repo/files", query) })
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, s.refused(resp)
	}
	files, err := readList(body, revision)
	if errors.Is(err, errNone) {
		return nil, s.none(syscall.ENOENT)
	}
	if err != nil {
		return nil, &tensorfs.FormatError{File: s.name, Offset: -1, Problem: "ModelScope's list of files " + err.Error(), Advice: "try again later"}
	}
	return files, nil
}

// errNone is the error of an answer that there is no such repository, or no such revision.
var errNone = errors.New("it is not there")

// readList reads the answer to a request for the files of a revision.
func readList(body []byte, revision string) (files []file, err error) {
	o, err := jsonobj.Parse(body)
	if err != nil {
		return nil, errors.New("is not JSON that can be read")
	}
	if o.Raw("Success").String() == "false" {
		return nil, errNone
	}
	list := o.Raw("Data").Member("Files")
	if list.Kind() != '[' {
		return nil, errors.New("is missing in its answer")
	}
	for raw := range list.Elements() {
		if len(files) == maxEntries {
			return nil, fmt.Errorf("has more than %d entries", maxEntries)
		}
		if raw.Member("Type").Text() == "tree" {
			continue
		}
		size, ok := raw.Member("Size").Int()
		f := file{Path: raw.Member("Path").Text(), Size: int64(size), SHA256: raw.Member("Sha256").Text(), Commit: raw.Member("Revision").Text()}
		if at, ok := raw.Member("CommittedDate").Int(); ok && at > 0 {
			f.Time = time.Unix(int64(at), 0)
		}
		switch problem := remote.CheckName(f.Path); {
		case problem != "":
			return nil, errors.New("is wrong: " + tensorfs.Quote(f.Path) + " " + problem)
		case !ok || f.Size < 0 || f.Size > cache.MaxSize:
			return nil, errors.New("is wrong: " + tensorfs.Quote(f.Path) + " has a size that no file can have")
		}
		if f.SHA256 = strings.ToLower(f.SHA256); !isHex(f.SHA256, 64) {
			f.SHA256 = ""
		}
		if !isHex(f.Commit, 40) {
			f.Commit = revision
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, errNone
	}
	return files, nil
}

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// none is the error that there is no such model.
func (s *server) none(kind error) error {
	advice := "check the name and the revision"
	if token, _ := s.token(); token == "" {
		advice += ", or set " + tokenSetting
	}
	return &tensorfs.FormatError{File: s.name, Offset: -1, Problem: "by ModelScope's answer there is no such model, or you may not see it", Advice: advice, Kind: kind}
}

// refused is the error of an answer.
func (s *server) refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusNotFound:
		return s.none(syscall.ENOENT)
	case http.StatusUnauthorized, http.StatusForbidden:
		return s.none(syscall.EACCES)
	case http.StatusTooManyRequests:
		return &tensorfs.FormatError{File: s.name, Offset: -1, Problem: "ModelScope limits requests", Advice: "try again " + web.When(resp.Header), Kind: web.Refusal(resp, syscall.EIO)}
	}
	return web.Status(s.name, resp, "try again later")
}

// origin returns how the bytes of a file are asked for: the server redirects to an address that is
// good for a while.
func (s *server) origin(f file, at string) web.Origin {
	query := url.Values{"Revision": {f.Commit}, "FilePath": {f.Path}}
	return &web.Resolved{
		Client: s.o.Client,
		Ask:    func(ctx context.Context) (*http.Request, error) { return s.request(ctx, "repo", query) },
		Check: func(resp *http.Response, _ []byte) error {
			switch {
			case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
				return web.ErrVersion(at, "ModelScope does not have it any more")
			case resp.StatusCode >= 400:
				return s.refused(resp)
			}
			return nil
		},
	}
}

// listing makes a listing of what was found.
func (s *server) listing(a remote.Answer[fileList]) (*remote.Listing, error) {
	items := make([]remote.Item, len(a.Value.Files))
	for i, f := range a.Value.Files {
		at := s.name + "/" + f.Path
		id := cache.ID{Size: f.Size, Source: at, ModTime: f.Time}
		switch {
		case f.SHA256 != "":
			id.Key, id.Digest, id.Server = "sha256:"+f.SHA256, "sha256:"+f.SHA256, s.at.String()
		case isHex(f.Commit, 40):
			id.Key = fmt.Sprintf("ms %q %q %q %s", s.at, s.repo, f.Path, f.Commit)
		default:
			id.Private = true
		}
		items[i] = remote.Item{Name: f.Path, ID: id, Host: s.at.Host, Origin: a.Origin(s.origin(f, at))}
	}
	return s.o.Listing(s.name, items, time.Now(), a.Note)
}
