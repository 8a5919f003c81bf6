package transport

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

// Pages are web pages at the address of a server. In a browser they have the server's own origin, which the server then accepts beside
// ServerOptions.AllowOrigins. Any goroutine may call the functions.
type Pages struct {
	// Serve answers a request that is neither for the websocket nor a probe. If Serve returns false, it has written nothing, and the server answers.
	Serve func(w http.ResponseWriter, r *http.Request, from Caller) bool

	// Token returns the bearer token that a browser keeps for the pages; "": none. The server asks for the token of a websocket from its own origin
	// without the header Authorization, and of no other.
	Token func(r *http.Request) string
}

// A Caller is the other end of a request for a page.
type Caller struct {
	Peer   string               // as of About
	Remote string               // the address, for logs
	Origin string               // of the pages at the host of the request
	Own    bool                 // a page of the server's own origin sends the request
	TLS    *tls.ConnectionState // nil: no TLS
	UID    *uint32              // the user at the other end of a unix socket; nil: unknown
}

// page reports whether a page has answered.
func (h *handler) page(w http.ResponseWriter, r *http.Request) bool {
	if h.pages == nil {
		return false
	}
	c := r.Context().Value(wireKey{}).(wire)
	origin := "http://" + r.Host
	named := slices.IndexFunc(h.origins, func(o string) bool { return strings.HasSuffix(o, "://"+r.Host) })
	switch {
	case named >= 0:
		origin = h.origins[named]
	case c.tlsState() != nil:
		origin = "https://" + r.Host
	case !isAddress(r.Host):
		h.refused(ByOrigin, r.RemoteAddr, "host not allowed: "+r.Host)
		http.Error(w, fmt.Sprintf("this server does not know that %q is its name: open the page by its IP address, or start the server with --allow-origin and the origin that browsers see, such as https://%[1]s", r.Host), http.StatusForbidden)
		return true
	}
	from := Caller{Peer: c.state().visitor.peer(), Remote: name(c), Origin: origin, Own: h.own(r), TLS: c.tlsState()}
	if uid, ok := userOf(c); ok {
		from.UID = &uid
	}
	return h.pages.Serve(w, r, from)
}

// foreign answers a request of an origin that the server does not accept, and reports whether it has answered. A page in a browser can reach loopback
// addresses, but its requests carry an Origin header.
func (h *handler) foreign(w http.ResponseWriter, r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(h.origins, origin) && !h.own(r) {
			h.refused(ByOrigin, r.RemoteAddr, "origin not allowed: "+origin)
			http.Error(w, fmt.Sprintf("origin %q is not allowed here; the server must be started with --allow-origin %[1]q", origin), http.StatusForbidden)
			return true
		}
	}
	return false
}

// own reports whether a page of the server itself sends a request: scheme and host of the origin are those of the request. A page of somebody else has
// this origin, too, once the name of its host is bound to the address of this server (DNS rebinding). So the host must be an IP address or localhost,
// or with TLS a name for which the browser has accepted the certificate. The operator names any other in AllowOrigins, such as that of a proxy
// with TLS.
func (h *handler) own(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if h.pages == nil || len(origins) != 1 {
		return false
	}
	scheme, host, _ := strings.Cut(origins[0], "://")
	secure := r.Context().Value(wireKey{}).(wire).tlsState() != nil
	switch {
	case host == "" || host != r.Host:
		return false
	case slices.Contains(h.origins, origins[0]):
		return true
	case secure:
		return scheme == "https"
	default:
		return scheme == "http" && isAddress(host)
	}
}

// isAddress reports whether a host, with or without a port, is an IP address or localhost.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}

// credential returns the header with the credential of a websocket.
func (h *handler) credential(r *http.Request) http.Header {
	if len(r.Header.Values("Authorization")) == 0 && h.own(r) {
		if token := h.pages.Token(r); token != "" {
			return auth.Bearer(token)
		}
	}
	return r.Header
}
