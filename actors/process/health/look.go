package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// lookTime is how long a look may take.
const lookTime = time.Second

// LookFor returns a function that looks once whether a run is ready, at a port, a socket or a file; a nil error means: ready. Tests
// replace LookFor.
var LookFor = func(r *protocol.Ready) func(context.Context) error {
	switch {
	case r.TCP != "":
		return func(ctx context.Context) error { return Dial(ctx, "tcp", r.TCP) }
	case r.Unix != "":
		path, _ := protocol.ParseFileURI(r.Unix) // checked at the start
		return func(ctx context.Context) error { return Dial(ctx, "unix", path) }
	}
	path, _ := protocol.ParseFileURI(r.File)
	return func(context.Context) error {
		_, err := os.Lstat(path)
		return err
	}
}

// Dial opens a connection, and closes it.
func Dial(ctx context.Context, network, address string) error {
	d := net.Dialer{Timeout: lookTime}
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		conn.Close()
	}
	return err
}

// Lacking reports whether an error says that the server lacks descriptors, memory or local ports.
// Such an error tells nothing about the program.
func Lacking(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL},
		func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// prober is the client of all probes by HTTP. A probe follows no redirect, uses no proxy, and trusts every certificate:
// it asks whether the program answers, and sends nothing.
var prober = &http.Client{
	Transport: &http.Transport{
		Proxy: nil, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxResponseHeaderBytes: 64 << 10,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// LookAtURL returns a function that asks once whether a program answers at a URL.
func LookAtURL(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "troupe-probe")
		resp, err := prober.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 399 {
			return fmt.Errorf("status %s", resp.Status)
		}
		return nil
	}
}

// ProbeURL asks once whether a program answers at a URL. fault says why it does not; "": it does. ours says why the server could
// not ask.
func ProbeURL(ctx context.Context, limit time.Duration, url string) (fault string, ours error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch err := LookAtURL(url)(ctx); {
	case err == nil:
		return "", nil
	case Lacking(err):
		return "", err
	default:
		return err.Error(), nil
	}
}
