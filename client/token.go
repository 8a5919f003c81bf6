package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode"

	"github.com/b6f6fdd7/troupe/transport"
)

// TokenFromEnv returns the bearer token in the environment variable TROUPE_TOKEN, or else in the file
// that TROUPE_TOKEN_FILE names, without blanks around it. If neither variable is set, the token is "",
// and no token is sent. TokenFromEnv is for Options.Token.
func TokenFromEnv() (string, error) {
	if token := strings.TrimSpace(os.Getenv("TROUPE_TOKEN")); token != "" {
		return token, nil
	}
	path := os.Getenv("TROUPE_TOKEN_FILE")
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("TROUPE_TOKEN_FILE: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("TROUPE_TOKEN_FILE: %s is empty", path)
	}
	return token, nil
}

// credential returns the token that says who this client is; "": none. A token goes to another machine only
// inside TLS: anybody on the way could read it.
func (o *Options) credential(server string) (token string, err error) {
	if o.Token == nil {
		return "", nil
	}
	if token, err = o.Token(); err != nil || token == "" {
		return "", err
	}
	if i := strings.IndexFunc(token, unicode.IsControl); i >= 0 {
		return "", fmt.Errorf("the token has the control character %q after %d bytes, which no HTTP header can have: is it a single line?", token[i], i)
	}
	if u, err := url.Parse(server); err == nil && u.Scheme == "ws" && !loopback(u.Hostname()) {
		return "", fmt.Errorf("the token is not sent to %s without TLS: use wss://, or a tunnel to a loopback address", u.Host)
	}
	return token, nil
}

// Header returns the header that shows the token of o to the server at a URL, for a program that opens connections with package
// transport itself. Nil: no token is sent. At unix+frames://PATH the token goes into initialize instead.
func (o *Options) Header(server string) (http.Header, error) {
	token, err := o.credential(server)
	if err != nil || token == "" {
		return nil, err
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// unauthorized reports whether the server refuses the credential of this client at a websocket.
func unauthorized(err error) bool {
	refused, ok := errors.AsType[*transport.RefusedError](err)
	return ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden)
}
