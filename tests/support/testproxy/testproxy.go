// Package testproxy has proxies for tests: HTTP proxies and SOCKS5 proxies on loopback.
package testproxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy joins each client with the server that the client asks for. The end of the test ends a Proxy.
type Proxy struct {
	URL *url.URL

	opened atomic.Int32
}

// New returns a proxy for clients of a scheme: http or socks5. The proxy dials what route returns for the address in a client's
// request, host:port. A nil route returns the address itself. A client that leaves before its request is whole is no fault.
func New(t testing.TB, scheme string, route func(address string) string) *Proxy {
	t.Helper()
	read, granted := readConnect, "HTTP/1.1 200 Connection established\r\n\r\n"
	if scheme == "socks5" {
		read, granted = readSocks, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: &url.URL{Scheme: scheme, Host: listener.Addr().String()}}
	var all sync.WaitGroup
	join := func(near net.Conn) {
		defer near.Close()
		address, err := read(near)
		if err != nil {
			return
		}
		if address == "" {
			t.Errorf("a client of the %s proxy sent no CONNECT, or no IPv4 address", scheme)
			return
		}
		if route != nil {
			address = route(address)
		}
		far, err := net.Dial("tcp", address)
		if err != nil {
			t.Errorf("the %s proxy: %v", scheme, err)
			return
		}
		defer far.Close()
		io.WriteString(near, granted)
		p.opened.Add(1)
		all.Go(func() {
			io.Copy(far, near)
			far.(*net.TCPConn).CloseWrite()
		})
		io.Copy(near, far)
	}
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { join(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return p
}

// Opened returns how many clients the proxy has joined with a server.
func (p *Proxy) Opened() int { return int(p.opened.Load()) }

// readConnect reads an HTTP CONNECT. A client sends nothing more until the proxy answers. The address of another method is "".
func readConnect(c net.Conn) (address string, err error) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil || r.Method != http.MethodConnect {
		return "", err
	}
	return r.Host, nil
}

// readSocks reads the greeting and the request of SOCKS5, and answers the greeting: RFC 1928. The address is "" if the type of the
// request's address is not IPv4.
func readSocks(c net.Conn) (address string, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(c, make([]byte, head[1])); err != nil { // the methods
		return "", err
	}
	c.Write([]byte{5, 0}) // no authentication
	request := make([]byte, 4+net.IPv4len+2)
	if _, err := io.ReadFull(c, request); err != nil || request[3] != 1 {
		return "", err
	}
	return fmt.Sprintf("%v:%d", net.IP(request[4:8]), binary.BigEndian.Uint16(request[8:])), nil
}
