package httpcall

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/internal/secrets"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Request is a checked request. A Request can be sent once.
type Request struct {
	method string
	url    *url.URL
	host   string // of the header; "": the host of url
	header http.Header
	secret []string // names of fields from the environment; they go to no other origin
	body   []byte
	stop   bool // a redirect is the response
}

func invalid(format string, a ...any) *protocol.Error {
	return protocol.WrongParams("http/request "+format, a...)
}

// NewRequest checks p and returns the request. Whatever the headers of p say, net/http chooses the length of the
// body and the transfer encoding.
func NewRequest(p protocol.HTTPRequestParams) (*Request, error) {
	if !isToken(p.Method) {
		return nil, invalid("method is invalid: invalid HTTP method")
	}
	if p.Method == http.MethodConnect {
		return nil, invalid("method is invalid: CONNECT would make a tunnel, which nobody could use")
	}
	u, err := parseURL(p.URL)
	if err != nil {
		return nil, err
	}
	r := &Request{method: p.Method, url: u, header: make(http.Header), body: p.Body, stop: p.RedirectPolicy == protocol.HTTPStop}
	size := 0
	for _, h := range p.Headers {
		value, err := r.add(h)
		if err != nil {
			return nil, err
		}
		if size += len(h.Name) + len(value); size > maxHeader {
			return nil, invalid("headers have more than %d bytes, which is the most", maxHeader)
		}
	}
	r.host = r.header.Get("Host")
	if r.header["User-Agent"] == nil {
		r.header.Set("User-Agent", "") // net/http would send its own
	}
	return r, nil
}

// Origin returns scheme, host and port of the URL.
func (r *Request) Origin() string { return r.url.Scheme + "://" + r.url.Host }

// add adds a field, and returns its value.
func (r *Request) add(h protocol.HTTPRequestHeader) (value string, _ error) {
	if !isToken(h.Name) {
		return "", invalid("header name is invalid: invalid HTTP header name")
	}
	value, err := valueOf(h)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return "", invalid("header value is invalid for %s: failed to parse header value", clip(h.Name)).
			Advise("the value has a control character, such as a newline")
	}
	r.header.Add(h.Name, value)
	if h.ValueEnvVar != nil {
		r.secret = append(r.secret, h.Name)
	}
	return value, nil
}

// valueOf returns the value of a field. No error has the value of a variable.
func valueOf(h protocol.HTTPRequestHeader) (value string, _ error) {
	if h.Value != nil {
		value = *h.Value
	}
	if h.ValueEnvVar == nil {
		return value, nil
	}
	field, name := clip(h.Name), clip(*h.ValueEnvVar)
	if secrets.Unsent(*h.ValueEnvVar) {
		return "", invalid("header %s cannot use executor environment variable %s", field, name).
			Advise("the server sends no keys and tokens of its own or of cloud providers: choose a variable with another name")
	}
	switch variable, ok := os.LookupEnv(*h.ValueEnvVar); {
	case !ok || !utf8.ValidString(variable):
		return "", invalid("header %s requires executor environment variable %s", field, name).
			Advise("set the variable, as UTF-8, in the environment of the server, and restart the server")
	case variable == "":
		return "", invalid("header %s requires a non-empty executor environment variable %s", field, name).
			Advise("the variable is empty in the environment of the server: set it, and restart the server")
	default:
		return value + variable, nil
	}
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, invalid("url is invalid: it has %d bytes, the limit is %d", len(text), maxURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the client knows its URL
		}
		return nil, invalid("url is invalid: %s", clip(err.Error()))
	}
	switch {
	case u.Scheme == "":
		return nil, invalid("url is invalid: relative URL without a base")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("only supports http and https URLs, got %s", clip(u.Scheme))
	case u.Hostname() == "":
		return nil, invalid("url is invalid: empty host")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	return u, nil
}

// escapeQuery escapes characters that a query may not have, as browsers do (WHATWG URL, query state). net/http
// does not escape a query.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c > '~' || strings.IndexByte(`"<>`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// credentials are the fields of a header for a single origin.
var credentials = []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate"}

// origin returns the origin of a URL: scheme, host and port (RFC 6454 §4).
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// isToken reports whether s can be a method or the name of a header (RFC 9110 §5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}

// clip shortens a text of the client for an error: the client knows the rest.
func clip(s string) string {
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}
