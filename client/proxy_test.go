package client

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testproxy"
)

// The client reaches a server through a proxy, also when it comes back after a cut. For a socket on this
// machine no proxy is asked.
func TestProxy(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"ws://", "wss://", "unix://"} {
		for _, kind := range []string{"http", "socks5"} {
			t.Run(strings.TrimSuffix(scheme, "://")+" "+kind, func(t *testing.T) {
				f, server, config := serveFake(t, scheme)
				p := testproxy.New(t, kind, nil)
				resumed := make(chan bool, 10)
				c := dialFake(t, f, server, &Options{JSON: true, TLS: config, Resumed: func() { resumed <- true },
					Proxy: func(r *http.Request) (*url.URL, error) {
						if want := map[string]string{"ws://": "http", "wss://": "https"}[scheme]; r.URL.Scheme != want {
							t.Errorf("a proxy is asked for %s", r.URL)
						}
						return p.URL, nil
					}})
				f.cut()
				<-resumed
				wantExit(t, c.Command("hello").Run(t.Context()), 0)
				want := 2
				if scheme == "unix://" {
					want = 0
				}
				if got := p.Opened(); got < want || got > want && want == 0 {
					t.Errorf("%d connections through the proxy, want %d", got, want)
				}
				c.Close()
			})
		}
	}
}

// Without Options.Proxy the environment names the proxy. net/http reads the environment only once, so another
// process dials.
func TestProxyOfEnvironment(t *testing.T) {
	t.Parallel()
	const host = "troupe.invalid" // no name server knows this name
	if os.Getenv("TROUPE_TEST_DIAL") != "" {
		c, err := Dial(t.Context(), "ws://"+host, &Options{JSON: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		return
	}
	_, server, _ := serveFake(t, "ws://")
	p := testproxy.New(t, "http", func(address string) string {
		if address != host+":80" {
			t.Errorf("the client asks the proxy for %s", address)
		}
		return strings.TrimPrefix(server, "ws://")
	})
	child := exec.Command(os.Args[0], "-test.run=^TestProxyOfEnvironment$")
	child.Env = append(os.Environ(), "TROUPE_TEST_DIAL=1", "HTTP_PROXY="+p.URL.String(), "NO_PROXY=", "no_proxy=", "http_proxy=")
	if out, err := child.CombinedOutput(); err != nil || p.Opened() != 1 {
		t.Errorf("%v, %d connections through the proxy: %s", err, p.Opened(), out)
	}
}
