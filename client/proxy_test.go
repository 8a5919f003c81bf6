package client

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy joins connections as an HTTP proxy or a SOCKS5 proxy, and counts them.
type proxy struct {
	listener net.Listener
	opened   atomic.Int32
	all      sync.WaitGroup
}

func newProxy(t *testing.T, destination func(net.Conn) (string, error), opened string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener}
	p.all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() {
				defer near.Close()
				to, err := destination(near)
				if err != nil {
					t.Error(err)
					return
				}
				far, err := net.Dial("tcp", to)
				if err != nil {
					t.Error(err)
					return
				}
				defer far.Close()
				io.WriteString(near, opened)
				p.opened.Add(1)
				p.all.Go(func() {
					io.Copy(far, near)
					far.Close()
				})
				io.Copy(near, far)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.all.Wait()
	})
	return p
}

// connectTo reads an HTTP CONNECT. Nothing follows until the proxy answers.
func connectTo(c net.Conn) (string, error) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil && r.Method != http.MethodConnect {
		err = fmt.Errorf("the client sent %s", r.Method)
	}
	if err != nil {
		return "", err
	}
	return r.Host, nil
}

// socksTo reads the greeting and the request of SOCKS5 for an IPv4 address: RFC 1928.
func socksTo(c net.Conn) (string, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(c, make([]byte, head[1])); err != nil { // the methods
		return "", err
	}
	c.Write([]byte{5, 0}) // no authentication
	request := make([]byte, 4+net.IPv4len+2)
	if _, err := io.ReadFull(c, request); err != nil {
		return "", err
	}
	if request[3] != 1 {
		return "", fmt.Errorf("address of type %d", request[3])
	}
	return fmt.Sprintf("%v:%d", net.IP(request[4:8]), binary.BigEndian.Uint16(request[8:])), nil
}

// The client reaches a server through a proxy, also when it comes back after a cut. For a socket on this
// machine no proxy is asked.
func TestProxy(t *testing.T) {
	for _, scheme := range []string{"ws://", "wss://", "unix://"} {
		for kind, p := range map[string]*proxy{
			"http":   newProxy(t, connectTo, "HTTP/1.1 200 Connection established\r\n\r\n"),
			"socks5": newProxy(t, socksTo, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"),
		} {
			t.Run(strings.TrimSuffix(scheme, "://")+" "+kind, func(t *testing.T) {
				f, server, config := serveFake(t, scheme)
				through := &url.URL{Scheme: kind, Host: p.listener.Addr().String()}
				resumed := make(chan bool, 10)
				c := dialFake(t, f, server, &Options{JSON: true, TLS: config, Resumed: func() { resumed <- true },
					Proxy: func(r *http.Request) (*url.URL, error) {
						if want := map[string]string{"ws://": "http", "wss://": "https"}[scheme]; r.URL.Scheme != want {
							t.Errorf("a proxy is asked for %s", r.URL)
						}
						return through, nil
					}})
				f.cut()
				<-resumed
				wantExit(t, c.Command("hello").Run(t.Context()), 0)
				want := int32(2)
				if scheme == "unix://" {
					want = 0
				}
				if got := p.opened.Load(); got < want || got > want && want == 0 {
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
	p := newProxy(t, func(c net.Conn) (string, error) {
		to, err := connectTo(c)
		if to != host+":80" {
			t.Errorf("the client asks the proxy for %s", to)
		}
		return strings.TrimPrefix(server, "ws://"), err
	}, "HTTP/1.1 200 Connection established\r\n\r\n")
	child := exec.Command(os.Args[0], "-test.run=^TestProxyOfEnvironment$")
	child.Env = append(os.Environ(), "TROUPE_TEST_DIAL=1", "HTTP_PROXY=http://"+p.listener.Addr().String(), "NO_PROXY=", "no_proxy=", "http_proxy=")
	if out, err := child.CombinedOutput(); err != nil || p.opened.Load() != 1 {
		t.Errorf("%v, %d connections through the proxy: %s", err, p.opened.Load(), out)
	}
}
