package testhub

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Hub is a Hugging Face Hub.
type Hub struct {
	Servers

	Page    int               // entries of a page of a tree, 1,000
	Private map[string]string // token that a repository asks for
	Gated   map[string]bool   // whose files need a token of Granted
	Granted map[string]string // token that may read the files of a gated repository
	Renamed map[string]string // old name to new; the old one may have no organisation

	repositories map[string]map[string]commit // by name and revision
}

// commit is a tree of files.
type commit struct {
	id    string
	files map[string]string // path to the id of the content
}

// NewHub starts a Hub that ends with the test.
func NewHub(t testing.TB) *Hub {
	h := &Hub{Page: 1000, Private: map[string]string{}, Gated: map[string]bool{}, Granted: map[string]string{}, Renamed: map[string]string{}, repositories: map[string]map[string]commit{}}
	h.start(t, h.serve)
	return h
}

// Commit gives a repository another commit, which the revisions name too, main if
// none is said. It returns the commit's id.
func (h *Hub) Commit(repository string, files map[string][]byte, revisions ...string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := commit{files: map[string]string{}}
	sum := sha1.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		id := contentID(name, files[name])
		h.blobs[id] = files[name]
		c.files[name] = id
		fmt.Fprintf(sum, "%s %s\n", name, id)
	}
	c.id = fmt.Sprintf("%x", sum.Sum(nil))
	if h.repositories[repository] == nil {
		h.repositories[repository] = map[string]commit{}
	}
	if len(revisions) == 0 {
		revisions = []string{"main"}
	}
	for _, r := range append(revisions, c.id) {
		h.repositories[repository][r] = c
	}
	return c.id
}

// contentID is the SHA-256 of a large file, or git's id of a small one.
func contentID(name string, b []byte) string {
	if isLFS(name) {
		return fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)))
}

func isLFS(name string) bool {
	return slices.Contains([]string{".gguf", ".safetensors", ".bin"}, path.Ext(name))
}

// refuse answers as the Hub does.
func refuse(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// serve takes these apart; a revision is one part of the path:
//
//	/api/models/ORG/NAME/revision/REV
//	/api/models/ORG/NAME/tree/COMMIT
//	/api/resolve-cache/models/ORG/NAME/COMMIT/PATH
//	/ORG/NAME/resolve/COMMIT/PATH
func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	p := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i := range p {
		p[i], _ = url.PathUnescape(p[i])
	}
	at := func(i int) string { return append(slices.Clone(p), make([]string, i+1)...)[i] }
	switch {
	case at(0) == "api" && at(1) == "models" && (at(4) == "revision" || at(4) == "tree") && len(p) == 6:
		if c, ok := h.findCommit(w, r, at(2)+"/"+at(3), at(5)); ok && at(4) == "tree" {
			h.tree(w, r, c)
		} else if ok {
			b, _ := json.Marshal(map[string]any{"_id": "x", "id": at(2) + "/" + at(3), "private": false, "gated": h.Gated[at(2)+"/"+at(3)], "sha": c.id, "siblings": []any{}})
			text(w, r, "", b)
		}
	case at(0) == "api" && at(1) == "models" && len(p) == 5 && h.Renamed[at(2)] != "": // a name without an organisation
		h.findCommit(w, r, at(2), at(4))
	case at(0) == "api" && at(1) == "resolve-cache" && at(2) == "models":
		if c, ok := h.findCommit(w, r, at(3)+"/"+at(4), at(5)); ok {
			id := c.files[strings.Join(p[6:], "/")]
			b, _ := h.blob(id)
			w.Header().Set("X-Repo-Commit", c.id)
			text(w, r, id, b)
		}
	case at(2) == "resolve" && len(p) > 4:
		h.resolve(w, r, at(0)+"/"+at(1), at(3), p[4:])
	default:
		refuse(w, http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
	}
}

// bearer is the token of a request.
func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// findCommit returns a commit, or answers why not.
func (h *Hub) findCommit(w http.ResponseWriter, r *http.Request, repository, revision string) (commit, bool) {
	if to := h.Renamed[repository]; to != "" {
		w.Header().Set("Location", strings.Replace(r.URL.RequestURI(), "/"+repository+"/", "/"+to+"/", 1))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return commit{}, false
	}
	h.mu.Lock()
	c, ok := h.repositories[repository][revision]
	_, known := h.repositories[repository]
	h.mu.Unlock()
	switch want := h.Private[repository]; {
	case !known, want != "" && bearer(r) != want:
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case !ok:
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
	default:
		return c, true
	}
	return commit{}, false
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, repository, revision string, parts []string) {
	c, ok := h.findCommit(w, r, repository, revision)
	if !ok {
		return
	}
	name := strings.Join(parts, "/")
	id, ok := c.files[name]
	b, _ := h.blob(id)
	switch {
	case h.Gated[repository] && (h.Granted[repository] == "" || h.Granted[repository] != bearer(r)):
		refuse(w, http.StatusForbidden, "GatedRepo", "Access to model "+repository+" is restricted and you are not in the authorized list.")
	case !ok:
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
	case !isLFS(name):
		for i := range parts {
			parts[i] = url.PathEscape(parts[i])
		}
		w.Header().Set("Location", "/api/resolve-cache/models/"+repository+"/"+c.id+"/"+strings.Join(parts, "/")+"?etag=%22"+id+"%22")
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		w.Header().Set("X-Repo-Commit", c.id)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(b)))
		w.Header().Set("X-Linked-ETag", `"`+id+`"`)
		w.Header().Set("X-Xet-Hash", strings.Repeat("0", 64))
		w.Header().Set("Location", h.sign(id))
		w.WriteHeader(http.StatusFound)
	}
}

// tree sends a page of a tree.
func (h *Hub) tree(w http.ResponseWriter, r *http.Request, c commit) {
	type entry map[string]any
	var all []entry
	dirs := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		for d := path.Dir(name); !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
			all = append(all, entry{"type": "directory", "oid": c.id, "size": 0, "path": d})
		}
		id := c.files[name]
		b, _ := h.blob(id)
		e := entry{"type": "file", "path": name, "size": len(b), "oid": cmp.Or(id, c.id)}
		if isLFS(name) {
			e["oid"] = c.id // of the pointer
			e["lfs"] = map[string]any{"oid": id, "size": len(b), "pointerSize": 135}
			e["xetHash"] = strings.Repeat("0", 64)
		}
		all = append(all, e)
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	if to := from + h.Page; to < len(all) {
		q := r.URL.Query()
		q.Set("cursor", strconv.Itoa(to))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, h.URL, r.URL.EscapedPath(), q.Encode()))
		all = all[:to]
	}
	b, _ := json.Marshal(all[from:])
	text(w, r, "", b)
}

// Key is the identity of a file in a repository: sha256:HEX of a large one, git:HEX
// of a small one.
func Key(name string, b []byte) string {
	if isLFS(name) {
		return "sha256:" + contentID(name, b)
	}
	return "git:" + contentID(name, b)
}
