package testremote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/web"
)

// Proxy is a proxy, behind which one handler answers for all hosts, over https.
type Proxy struct {
	at    *url.URL
	hosts []string
	roots *x509.CertPool
}

// NewProxy returns a proxy with a certificate for hosts. asked receives each host that is asked for.
func NewProxy(t testing.TB, hosts []string, h http.Handler, asked func(host string)) *Proxy {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: hosts, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{hosts: hosts, roots: x509.NewCertPool()}
	p.roots.AddCert(certificate)
	cloud := httptest.NewUnstartedServer(h)
	cloud.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	cloud.StartTLS()
	t.Cleanup(cloud.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r.Host)
		if r.Method != http.MethodConnect {
			http.Error(w, "only https", http.StatusBadGateway)
			return
		}
		to, err := net.Dial("tcp", cloud.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		from, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			to.Close()
			return
		}
		io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			io.Copy(to, buffered)
			to.Close()
		}()
		io.Copy(from, to)
		from.Close()
	}))
	t.Cleanup(proxy.Close)
	if p.at, err = url.Parse(proxy.URL); err != nil {
		t.Fatal(err)
	}
	return p
}

// Client is a client behind the proxy, which calls no address public.
func (p *Proxy) Client(t testing.TB) *web.Client {
	c := web.NewClient(web.Options{Timeout: 20 * time.Second, Public: func(netip.Addr) bool { return false }, Proxy: func(*http.Request) (*url.URL, error) { return p.at, nil }})
	t.Cleanup(func() { c.Close() })
	for _, host := range p.hosts {
		c.Trust(host, p.roots)
	}
	return c
}
