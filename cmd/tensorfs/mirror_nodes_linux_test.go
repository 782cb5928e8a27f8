package main

import (
	"bytes"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testmirror"
)

var (
	mirrorNodes = flag.String("mirror-nodes", "50", "how many nodes read a model through a mirror, such as 1,10,100,1000")
	mirrorModel = flag.Int64("mirror-model", 12, "MiB of that model")
	mirrorSlice = flag.String("mirror-slice", "1m", "size of the mirror's pieces")
	mirrorDelay = flag.Duration("mirror-delay", 0, "how long each answer of the Hub and of its storage takes")
	mirrorApart = flag.Duration("mirror-apart", 5*time.Millisecond, "between the starts of two nodes that do not all start at once")
)

// asked is a request of a node, and what the answer has to be.
type asked struct {
	path, part string
	status     int
	size       int64
	sum        uint32 // CRC32C
	data       bool   // of the model itself
}

// castagnoli is fast, and tells one part of the model from every other.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recorded is what one 'tensorfs fetch' asks a mirror for, in its order, how many
// requests it has under way at a time, and how long the whole took.
func recorded(t *testing.T, mirror, model string) (list []asked, width int) {
	t.Helper()
	at, err := url.Parse(mirror)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	now := 0
	to := httputil.NewSingleHostReverseProxy(at)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		i := len(list)
		list = append(list, asked{path: r.URL.RequestURI(), part: r.Header.Get("Range")})
		now++
		width = max(width, now)
		mu.Unlock()
		c := &checked{ResponseWriter: w}
		to.ServeHTTP(c, r)
		mu.Lock()
		defer mu.Unlock()
		a := &list[i]
		a.status, a.size, a.sum = c.status, c.size, c.sum
		a.data = strings.HasSuffix(r.URL.Path, ".safetensors") && a.size > 1
		now--
	}))
	defer s.Close()
	node(t, s.URL, "")
	succeeds(t, "fetch", model)
	return list, width
}

// checked is an answer whose bytes are summed up.
type checked struct {
	http.ResponseWriter
	status int
	size   int64
	sum    uint32
}

func (c *checked) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.size += int64(n)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
	return n, err
}

// maxConnections is how many connections all nodes together have.
const maxConnections = 4000

// replay is one node: it makes the recorded requests, so many at a time, and checks each
// answer. first is when the first byte of the model came.
func replay(mirror string, list []asked, width int) (first, all time.Duration, err error) {
	c := &http.Client{Transport: &http.Transport{MaxConnsPerHost: width, MaxIdleConnsPerHost: width, DisableCompression: true}, Timeout: 10 * time.Minute}
	defer c.CloseIdleConnections()
	start := time.Now()
	var mu sync.Mutex
	ask := func(a asked) error {
		req, err := http.NewRequest(http.MethodGet, mirror+a.path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept-Encoding", "identity")
		if a.part != "" {
			req.Header.Set("Range", a.part)
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b := make([]byte, 64<<10)
		n, sum := int64(0), uint32(0)
		for {
			k, err := resp.Body.Read(b)
			n += int64(k)
			sum = crc32.Update(sum, castagnoli, b[:k])
			if k > 0 && a.data {
				mu.Lock()
				if first == 0 {
					first = time.Since(start)
				}
				mu.Unlock()
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("%s %s: after %d of %d bytes: %w", a.path, a.part, n, a.size, err)
			}
		}
		if resp.StatusCode != a.status || n != a.size || sum != a.sum {
			return fmt.Errorf("%s %s: %s and %d bytes, want %d and %d", a.path, a.part, resp.Status, n, a.status, a.size)
		}
		return nil
	}
	// Small files come one after another, because every answer determines the next request.
	large := slices.IndexFunc(list, func(a asked) bool { return a.data })
	for _, a := range list[:large] {
		if err := ask(a); err != nil {
			return 0, 0, err
		}
	}
	next := make(chan asked, len(list))
	for _, a := range list[large:] {
		next <- a
	}
	close(next)
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for a := range next {
				if e := ask(a); e != nil {
					mu.Lock()
					err = e
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return first, time.Since(start), err
}

// How the nodes of a run start, beside one after the other; allThere is at once when the
// mirror has all of the model.
const (
	atOnce   = "at once"
	allThere = "at once, all of it there"
)

// However many nodes read a model through the mirror, at once or one after the other,
// the Hub and its storage send it once. The nodes are simulated: each makes the
// requests that a real 'tensorfs fetch' made. scripts/bench-mirror makes a table of more.
func TestMirrorNodes(t *testing.T) {
	h := testhub.NewHub(t)
	file := newMadeFile(4, *mirrorModel<<18)
	content := file.all()
	commit := h.Commit("org/m", map[string][]byte{"model.safetensors": content, "config.json": []byte(`{"model_type": "llama"}`), "README.md": []byte("# M\n")})
	model := int64(len(content))
	h.Delay(*mirrorDelay)
	mirror := func(t *testing.T) string {
		return testmirror.Hub(t, hubConf, h.URL, "slice 1m;", "slice "+*mirrorSlice+";").URL
	}
	list, width := recorded(t, mirror(t), "hf:org/m@"+commit)
	bytesOfModel := int64(0)
	for _, a := range list {
		if a.data {
			bytesOfModel += a.size
		}
	}
	if bytesOfModel < model || bytesOfModel > model+model/20 {
		t.Fatalf("a fetch of %d bytes asked for %d: %+v", model, bytesOfModel, list)
	}
	var table bytes.Buffer
	fmt.Fprintf(&table, "%d requests of 'tensorfs fetch', at most %d at a time, for %d bytes; pieces of %s; the origin answers after %v\n", len(list), width, model, *mirrorSlice, *mirrorDelay)
	fmt.Fprintln(&table, "| nodes | start | origin, MB | of the model | requests to the Hub | to storage | first byte p50, s | p99 | all of it p50, s | p99 |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for text := range strings.SplitSeq(*mirrorNodes, ",") {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes < 1 {
			t.Fatalf("-mirror-nodes %s: %v", *mirrorNodes, err)
		}
		for _, start := range []string{atOnce, fmt.Sprintf("every %v", *mirrorApart), allThere} {
			t.Run(text+" "+start, func(t *testing.T) {
				url := mirror(t)
				if start == allThere {
					if _, _, err := replay(url, list, width); err != nil {
						t.Fatal(err)
					}
				}
				h.Reset()
				first, all := make([]time.Duration, nodes), make([]time.Duration, nodes)
				width := max(1, min(width, maxConnections/nodes))
				var group sync.WaitGroup
				for i := range nodes {
					if start != atOnce && start != allThere && i > 0 {
						time.Sleep(*mirrorApart)
					}
					group.Go(func() {
						var err error
						if first[i], all[i], err = replay(url, list, width); err != nil {
							t.Errorf("node %d: %v", i, err)
						}
					})
				}
				group.Wait()
				hub, storage := 0, 0
				for _, r := range h.Requests() {
					if r.Data {
						storage++
					} else {
						hub++
					}
				}
				sent := h.Sent()
				least := model
				if start == allThere {
					least = 0
				}
				if sent < least || sent > least+model/20 || start == allThere && storage > 0 {
					t.Errorf("the origin sent %d bytes to %d nodes, for a model of %d, in %d requests", sent, nodes, model, storage)
				}
				slices.Sort(first)
				slices.Sort(all)
				p := func(d []time.Duration, percent int) float64 { return d[(len(d)-1)*percent/100].Seconds() }
				line := fmt.Sprintf("| %d | %s | %.1f | %.3f | %d | %d | %.2f | %.2f | %.2f | %.2f |", nodes, start, float64(sent)/1e6, float64(sent)/float64(model), hub, storage, p(first, 50), p(first, 99), p(all, 50), p(all, 99))
				fmt.Fprintln(&table, line)
				t.Log(line)
			})
		}
	}
	t.Log("\n" + table.String())
}
