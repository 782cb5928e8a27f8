package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

// get performs a request with credentials and a range.
func get(t *testing.T, c *Client, url string) (*http.Response, []byte, error) {
	t.Helper()
	return c.Do(context.Background(), 1<<20, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err == nil {
			req.Header.Set("Authorization", "Bearer secret")
			req.Header.Set("X-Amz-Security-Token", "secret")
			req.Header.Set("Cookie", "secret")
			req.Header.Set("If-Match", `"tag"`)
			req.Header.Set("Range", "bytes=0-9")
			req.Header.Set("Accept", "text/plain")
		}
		return req, err
	})
}

// echo answers with the headers that came.
func echo(w http.ResponseWriter, r *http.Request) { r.Header.Write(w) }

// What was made for one server goes to no other, not even one of the same name, nor
// back again.
func TestCredentialsStay(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(echo))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			http.Redirect(w, r, other.URL+"/?sig=secret", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/echo", http.StatusTemporaryRedirect)
		case "/and-back":
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/back", http.StatusFound)
		default:
			echo(w, r)
		}
	}))
	defer home.Close()
	c := NewClient(Options{Public: inside})
	defer c.Close()
	_, said, err := get(t, c, home.URL+"/here")
	if err != nil || strings.Count(string(said), "secret") != 3 || !strings.Contains(string(said), "If-Match") {
		t.Errorf("the server itself got %q, %v", said, err)
	}
	_, said, err = get(t, c, home.URL+"/there")
	if err != nil || strings.Contains(string(said), "secret") || strings.Contains(string(said), "If-Match") || strings.Contains(string(said), "Referer") ||
		!strings.Contains(string(said), "Range: bytes=0-9") || !strings.Contains(string(said), "Accept: text/plain") {
		t.Errorf("another server got %q, %v", said, err)
	}
	if _, err := net.LookupHost("localhost"); err != nil {
		t.Logf("NOT TESTED: another name of the same server: %v; is there an /etc/hosts?", err)
		return
	}
	_, said, err = get(t, c, home.URL+"/and-back")
	if err != nil || strings.Contains(string(said), "secret") {
		t.Errorf("another name got %q, %v", said, err)
	}
}

// Row 15: redirects that are not followed, and the one line that explains it. No request goes to an
// address of this machine.
func TestRedirects(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("it was asked") }))
	defer inner.Close()
	var to string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plain.Close()
	defer secure.Close()
	for _, tt := range []struct {
		name, from, to, want string
		public               func(netip.Addr) bool
	}{
		{"a loop", plain.URL, "/again", "redirected 10 times", inside},
		{"nowhere", plain.URL, "", "redirects to nowhere", inside},
		{"a file", plain.URL, "file:///etc/passwd", "not of the web", inside},
		{"https to http", secure.URL, "http://127.0.0.1:1/x?sig=secret", "from https to http", inside},
		{"from public to private", plain.URL, "http://169.254.169.254/latest/meta-data", "not public: 169.254.169.254",
			func(a netip.Addr) bool { return a.IsLoopback() }},
		{"from public to this machine", plain.URL, strings.Replace(inner.URL, "127.0.0.1", "127.0.0.2", 1), "not public: 127.0.0.2",
			func(a netip.Addr) bool { return a.String() == "127.0.0.1" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to = tt.to
			c := NewClient(Options{Public: tt.public})
			defer c.Close()
			c.open.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
			_, _, err := get(t, c, tt.from)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Each hop is judged by where it really goes: from the first public server on, whatever
// came before it, nothing leads to an address that is not public, with a proxy or
// without one. A proxy itself may be anywhere.
func TestRedirectsByHop(t *testing.T) {
	var asked []string // by the proxy's or server's name, what was asked for
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, name+" "+r.Host)
			to, more, ok := strings.Cut(r.URL.Query().Get("to"), " ")
			if to == "" {
				return
			}
			if ok {
				to += "?to=" + url.QueryEscape(more)
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		})
	}
	home := httptest.NewServer(handler("home"))
	defer home.Close()
	away := httptest.NewUnstartedServer(handler("away"))
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this machine has no second address of its own: ", err)
	}
	away.Listener.Close()
	away.Listener = l
	away.Start()
	defer away.Close()
	proxy := httptest.NewServer(handler("proxy"))
	defer proxy.Close()
	through, _ := url.Parse(proxy.URL)
	c := NewClient(Options{Plain: true,
		Public: func(a netip.Addr) bool { return a.String() == "127.0.0.2" || public(a) },
		Proxy: func(r *http.Request) (*url.URL, error) {
			if strings.HasPrefix(r.URL.Host, "127.") {
				return nil, nil
			}
			return through, nil
		}})
	defer c.Close()
	homeHost, awayHost := strings.TrimPrefix(home.URL, "http://"), strings.TrimPrefix(away.URL, "http://")
	for _, tt := range []struct {
		path string // the addresses
		want string // who was asked, or after them why no more were
	}{
		{"home away", "home " + homeHost + "; away " + awayHost},
		{"home home", "home " + homeHost + "; home " + homeHost},
		{"away home", "away " + awayHost + "; not public: 127.0.0.1"},
		{"home away home", "home " + homeHost + "; away " + awayHost + "; not public: 127.0.0.1"},
		{"home home away home", "home " + homeHost + "; home " + homeHost + "; away " + awayHost + "; not public: 127.0.0.1"},
		{"http://a.test http://b.test", "proxy a.test; proxy b.test"},
		{"away http://b.test", "away " + awayHost + "; proxy b.test"},
		{"http://a.test away http://b.test", "proxy a.test; away " + awayHost + "; proxy b.test"},
		{"http://a.test home", "proxy a.test; not public: 127.0.0.1"},
		{"home http://a.test home", "home " + homeHost + "; proxy a.test; not public: 127.0.0.1"},
		{"http://a.test http://8.8.8.8", "proxy a.test; proxy 8.8.8.8"},
		{"http://a.test http://10.0.0.1", "proxy a.test; not public: 10.0.0.1"},
		{"http://a.test http://[::ffff:a9fe:a9fe]", "proxy a.test; not public: ::ffff:a9fe:a9fe"},
		{"http://a.test http://localhost", "proxy a.test; not public: localhost"},
		{"http://a.test http://x.localhost.", "proxy a.test; not public: x.localhost."},
		{"http://a.test http://2130706433", "proxy a.test; not public: 2130706433"},
		{"http://a.test http://0x7f000001", "proxy a.test; not public: 0x7f000001"},
		{"http://a.test http://0x7f.1", "proxy a.test; not public: 0x7f.1"},
		{"http://10.0.0.1 http://10.0.0.2", "proxy 10.0.0.1; proxy 10.0.0.2"},
		{"http://10.0.0.1 home", "proxy 10.0.0.1; home " + homeHost},
	} {
		asked = nil
		var hops []string
		for p := range strings.FieldsSeq(tt.path) {
			hops = append(hops, map[string]string{"home": home.URL, "away": away.URL}[p]+strings.TrimPrefix(strings.TrimPrefix(p, "home"), "away")+"/")
		}
		_, _, err := get(t, c, hops[0]+"?to="+url.QueryEscape(strings.Join(hops[1:], " ")))
		if err != nil {
			_, why, _ := strings.Cut(err.Error(), "an address that is ")
			why, _, _ = strings.Cut(why, "; ")
			asked = append(asked, why)
		}
		if got := strings.Join(asked, "; "); got != tt.want {
			t.Errorf("%s: %s, want %s (%v)", tt.path, got, tt.want, err)
		}
	}
}

// http:// to a name or address of the Internet is refused unless it is allowed.
func TestPlainHTTP(t *testing.T) {
	c := NewClient(Options{})
	for _, u := range []string{"http://models.invalid/x", "http://93.184.216.34/x?token=secret"} {
		if _, _, err := get(t, c, u); err == nil || !strings.Contains(err.Error(), "--plain-http") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// Which addresses are public.
func TestPublic(t *testing.T) {
	for list, want := range map[string]bool{
		"127.0.0.1 10.1.2.3 192.168.0.1 172.16.0.1 169.254.169.254 100.64.0.1 100.100.100.200 0.0.0.0 0.1.2.3 224.0.0.1 255.255.255.255 240.0.0.1": false,
		"192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 168.63.129.16":                                       false,
		"::1 fe80::1 fe80::1%eth0 fd00::1 fd00:ec2::254 ff02::1 ::ffff:10.0.0.1 ::ffff:198.18.0.1 :: ::127.0.0.1 ::8.8.8.8 fec0::1":                false,
		"64:ff9b::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::8.8.8.8 2002:7f00:1:: 2002:a00:1::1 2002:a83f:8110::":                  false,
		"100::1 2001::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 3fff::1 5f00::1 4000::1 1::1":                                                  false,
		"93.184.216.34 100.63.0.1 100.128.0.1 192.0.1.1 198.17.0.1 198.20.0.1 168.63.129.17 8.8.8.8 172.32.0.1":                                    true,
		"2606:2800:220:1::1 2a00:1450::1 2001:4860:4860::8888 2620:4f:8000::1 64:ff9b::808:808 2002:808:808::1 ::ffff:8.8.8.8":                     true,
	} {
		for a := range strings.FieldsSeq(list) {
			if got := public(netip.MustParseAddr(a)); got != want {
				t.Errorf("%s: %v", a, got)
			}
		}
	}
}

// What a server may say about waiting.
func TestTold(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"Retry-After", "2", 2 * time.Second, true},
		{"Retry-After", "-2", 0, false},
		{"Retry-After", "99999999999999999999", 0, false},
		{"Retry-After", "Thu, 01 Jan 1970 00:00:00 GMT", 0, true},
		{"RateLimit", `"resolvers";r=0;t=55`, 56 * time.Second, true},
		{"RateLimit", `"resolvers";r=10;t=55`, 0, false},
		{"RateLimit", `"resolvers";r=0;t=`, 0, false},
	} {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		if got, ok := Told(h); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %s: %v %v", tt.name, tt.value, got, ok)
		}
	}
}

// Which ranges are believed.
func TestContentRange(t *testing.T) {
	for s, want := range map[string]bool{
		"bytes 0-9/10": true, "bytes 5-5/10": true, "bytes 0-10/10": false, "bytes 5-4/10": false, "bytes 0-9/*": false, "bytes */10": false, "": false,
		"items 0-9/10": false, "bytes -1-9/10": false, "bytes 0-9/99999999999999999999": false, "bytes 0-9/99999999999999999": false,
	} {
		if _, _, _, ok := ContentRange(s); ok != want {
			t.Errorf("%q: %v", s, ok)
		}
	}
}

// An answer that is too large is an error, and the text of an error is cut.
func TestDoLimits(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/error" {
			w.WriteHeader(http.StatusNotFound)
		}
		for range 100 {
			w.Write(make([]byte, 64<<10))
		}
	}))
	defer s.Close()
	c := NewClient(Options{Public: inside})
	defer c.Close()
	if _, _, err := get(t, c, s.URL); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Error(err)
	}
	if resp, body, err := get(t, c, s.URL+"/error"); err != nil || resp.StatusCode != http.StatusNotFound || len(body) != maxError {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}
