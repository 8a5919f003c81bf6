package webconsole

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

const (
	// maxBody bounds a request for a login, in bytes.
	maxBody = 8 << 10
	// maxCredential is the length of the longest credential in a cookie, in bytes: browsers keep 4096 bytes, in base64.
	maxCredential = 3000
	// remembered is how long a browser keeps the cookie of a login that asks for it.
	remembered = 30 * 24 * time.Hour
)

// The cookie has the credential itself. So every node of a cluster accepts it, a restart forgets nobody, and a revoked credential is
// worth nothing in a cookie either. Scripts cannot read the cookie, and browsers send the cookie only from pages of the same site. A site is more than an
// origin: also pages of other ports and of sibling names. So the server accepts the cookie for a websocket only with its own origin.
//
// The name has the port, because browsers share the cookies of a host among its ports: two consoles of a host do not log each other out. With TLS
// the prefix __Host- keeps other hosts, and pages without TLS, from setting the cookie.

// cookieName returns the name of the cookie for a host with or without a port.
func cookieName(host string, secure bool) string {
	name := "troupe"
	if _, port, err := net.SplitHostPort(host); err == nil {
		name += "-" + port
	}
	if secure {
		name = "__Host-" + name
	}
	return name
}

// isSecure reports whether the page of a request came by TLS, perhaps by that of a proxy.
func isSecure(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Origin"), "https://") }

// token returns the credential in the cookie of a request with the server's own origin; "": there is none.
func token(r *http.Request) string { return credentialIn(r, cookieName(r.Host, isSecure(r))) }

// credentialIn returns the credential in the cookie with a name; "": there is none, or there are several.
func credentialIn(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(all[0].Value)
	if err != nil || len(text) > maxCredential {
		return ""
	}
	return string(text)
}

// setCookie has a browser keep a credential for a time; 0: until it is closed. Without a credential, the browser forgets the cookie.
func setCookie(w http.ResponseWriter, r *http.Request, credential string, secure bool, keep time.Duration) {
	c := &http.Cookie{Name: cookieName(r.Host, secure), Value: base64.RawURLEncoding.EncodeToString([]byte(credential)), Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode, MaxAge: int(keep.Seconds())}
	if credential == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// identify returns who sends a request. "": the header Authorization and the connection count.
func (c *console) identify(r *http.Request, from transport.Caller, credential string) (auth.Identity, error) {
	v := auth.Visitor{Header: r.Header, TLS: from.TLS, UID: from.UID}
	if credential != "" {
		v.Header = auth.Bearer(credential)
	}
	return c.Door.Identify(v, time.Now())
}

// login gives a browser the cookie for a token.
func (c *console) login(w http.ResponseWriter, r *http.Request, from transport.Caller) {
	w.Header().Set("Cache-Control", "no-store")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !from.Own:
		http.Error(w, "only the page of this console logs in here", http.StatusForbidden)
		return
	case kind != "application/json":
		http.Error(w, `a login is JSON: {"token": "…"}, with Content-Type: application/json`, http.StatusUnsupportedMediaType)
		return
	case c.Door == nil:
		http.Error(w, "this server asks for no credential", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, fmt.Sprintf("a login of more than %d bytes", maxBody), http.StatusRequestEntityTooLarge)
		return
	}
	var asked struct {
		Token    string `json:"token"`
		Remember bool   `json:"remember"`
	}
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	credential := strings.TrimSpace(asked.Token)
	if err != nil || credential == "" {
		http.Error(w, `a login is JSON: {"token": "…"}`, http.StatusBadRequest)
		return
	}
	if c.guesses(w, from) {
		return
	}
	if c.Exchange != nil {
		credential, err = c.Exchange(credential)
	}
	if err == nil {
		_, err = c.identify(r, from, credential)
	}
	switch _, refused := errors.AsType[*auth.Refusal](err); {
	case refused:
		c.Refused(from.Remote, "login: "+err.Error())
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	case err != nil:
		c.wrong.right(from.Peer)
		unable(w)
		return
	}
	c.wrong.right(from.Peer)
	if len(credential) > maxCredential {
		http.Error(w, fmt.Sprintf("browsers keep no token of %d bytes: the limit is %d", len(credential), maxCredential), http.StatusRequestEntityTooLarge)
		return
	}
	keep := time.Duration(0)
	if asked.Remember {
		keep = remembered
	}
	setCookie(w, r, credential, isSecure(r), keep)
	w.WriteHeader(http.StatusNoContent)
}

// guesses reports whether too many wrong logins came from an address, and answers then. Otherwise the login counts as wrong, until c.wrong.right.
func (c *console) guesses(w http.ResponseWriter, from transport.Caller) bool {
	wait := c.wrong.begin(from.Peer, time.Now())
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		http.Error(w, "too many wrong logins came from this address: try again later", http.StatusTooManyRequests)
	}
	return wait > 0
}

// unable answers while the server cannot check credentials, such as without its file of tokens.
func unable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the server cannot check credentials at present, its log says why: try again", http.StatusServiceUnavailable)
}

// logout has a browser forget the credential.
func (c *console) logout(w http.ResponseWriter, r *http.Request, from transport.Caller) {
	if !from.Own {
		http.Error(w, "only the page of this console logs out here", http.StatusForbidden)
		return
	}
	setCookie(w, r, "", isSecure(r), 0)
	w.WriteHeader(http.StatusNoContent)
}

// me tells a page who its user is. The request may lack an Origin, as browsers send none with a GET of the same origin: no other page can read the answer,
// and nothing changes but a worthless cookie.
func (c *console) me(w http.ResponseWriter, r *http.Request, from transport.Caller) {
	w.Header().Set("Cache-Control", "no-store")
	answer := struct {
		Auth     bool    `json:"auth"` // the server asks for credentials
		Identity *string `json:"identity"`
		OIDC     bool    `json:"oidc"`
	}{Auth: c.Door != nil, OIDC: c.SSO != nil}
	if c.Door != nil {
		id, err := c.known(w, r, from)
		switch _, refused := errors.AsType[*auth.Refusal](err); {
		case err == nil:
			answer.Identity = &id.Name
		case !refused:
			unable(w)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// known returns who sends a request, by the cookie or else by the connection. A browser forgets a wrong cookie.
func (c *console) known(w http.ResponseWriter, r *http.Request, from transport.Caller) (auth.Identity, error) {
	for _, secure := range []bool{true, false} {
		credential := credentialIn(r, cookieName(r.Host, secure))
		if credential == "" || len(r.Header.Values("Authorization")) > 0 {
			continue
		}
		id, err := c.identify(r, from, credential)
		if _, refused := errors.AsType[*auth.Refusal](err); !refused {
			return id, err
		}
		c.Refused(from.Remote, "cookie: "+err.Error())
		setCookie(w, r, "", secure, 0)
	}
	return c.identify(r, from, "")
}

// guessRate is how many wrong logins may come from an address.
var guessRate = pace.Rate{PerSecond: 0.2, Burst: 10}

// maxGuessers bounds the addresses that are told apart. All further addresses share one allowance.
const maxGuessers = 1024

// guesses counts wrong logins by address. The zero guesses is ready. Any goroutine may call the methods.
type guesses struct {
	mu  sync.Mutex
	all map[string]*pace.Bucket
}

// begin takes the allowance for a login; right gives it back. If there is none, begin returns the time until there is a new allowance.
func (g *guesses) begin(peer string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of(peer, now).Take(guessRate, 1, now)
}

func (g *guesses) right(peer string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of(peer, time.Now()).Give(guessRate, 1)
}

// of returns the bucket of an address. The caller holds mu.
func (g *guesses) of(peer string, now time.Time) *pace.Bucket {
	if g.all == nil {
		g.all = make(map[string]*pace.Bucket)
	}
	if g.all[peer] == nil && len(g.all) >= maxGuessers {
		for name, b := range g.all {
			if b.Full(now) {
				delete(g.all, name)
			}
		}
		if len(g.all) >= maxGuessers {
			peer = ""
		}
	}
	if g.all[peer] == nil {
		g.all[peer] = new(pace.Bucket)
	}
	return g.all[peer]
}
