package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// An error that a flag or another address may mend says so, and no other error does.
func TestAdvise(t *testing.T) {
	at := func(url string) *runner { return &runner{runFlags: runFlags{url: url}} }
	trusting := at("wss://h:1")
	trusting.tls = new(tls.Config)
	inside := at("ws://h:1")
	inside.cwd = "/srv"
	dir := errors.New(`cwd "/" is not allowed by the policy of this server (cwd)`)
	for _, c := range []struct {
		r    *runner
		err  error
		want string
	}{
		{at("wss://h:1"), x509.UnknownAuthorityError{}, "--tls-ca"},
		{trusting, x509.UnknownAuthorityError{}, ""},
		{at("wss://h:1"), tls.RecordHeaderError{}, "ws:// instead of wss://"},
		{at("ws://h:1"), io.ErrUnexpectedEOF, "wss:// instead of ws://"},
		{at("wss://h:1"), io.ErrUnexpectedEOF, ""},
		{at("ws://h:1"), dir, "--cwd"},
		{at("ws://h:1"), errors.New(`working directory "/root": permission denied`), "--cwd"},
		{inside, dir, ""},
		{at(""), dir, ""},
		{at("ws://h:1"), errors.New("anything else"), ""},
	} {
		wrapped := fmt.Errorf("client: %w", c.err)
		got := c.r.advise(wrapped)
		if added := strings.TrimPrefix(got.Error(), wrapped.Error()); !strings.Contains(added, c.want) || c.want == "" && added != "" || !errors.Is(got, wrapped) {
			t.Errorf("%s: %v, want %q", c.r.url, got, c.want)
		}
	}
}
