// Package webconsole serves the web console: a page for browsers, and the cookie in which a browser keeps a credential. The page
// is a client as any other: everything goes over the websocket of the server. docs/CONSOLE.md is for users.
//
//   - console.go: the requests below /console/
//   - login.go: the cookie
//   - oidc.go, sso: the login by a provider of OIDC
//   - files.go: the files of the page, in dist
//   - page: the sources of the page; pack builds dist from them
package webconsole

import (
	"net/http"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/webconsole/sso"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// root is where the console is.
const root = "/console/"

// At returns the address of the console of a server at a URL such as wss://HOST:PORT; "": the server is at a socket, which no browser opens.
func At(url string) string {
	at, isTCP := strings.CutPrefix(url, "ws")
	if !isTCP {
		return ""
	}
	return "http" + strings.TrimSuffix(at, "/") + root
}

// answerTime is how long a client may take to read an answer. The largest file passes in this time at 100 kbit/s.
const answerTime = time.Minute

// Options are the options of a console.
type Options struct {
	// Door decides who may log in. Nil: the server asks for no credential.
	Door *auth.Door
	// Exchange returns the credential of a browser for the token of a login. Errors are as of an auth.Checker. Nil: the browser keeps the token.
	Exchange func(token string) (credential string, err error)
	// SSO logs people in by a provider of OIDC; its tokens are the door's to check. Nil: there is none.
	SSO *sso.Provider
	// Refused is called for each wrong credential. Any goroutine may call Refused, which must not block.
	Refused func(remote, reason string)
	// Failed is called when a provider of OIDC cannot be asked. Needed with SSO, and as Refused.
	Failed func(what string, err error)
}

// New returns the pages of a console.
func New(o Options) *transport.Pages {
	c := &console{Options: o, files: files()}
	return &transport.Pages{Serve: c.serve, Token: token}
}

type console struct {
	Options
	files map[string]file // by their paths below root
	wrong guesses         // logins
}

// headers are part of each answer. The page loads only files of this server, runs no inline script, and is shown in no frame.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), display-capture=(), geolocation=(), hid=(), microphone=(), midi=(), payment=(), serial=(), usb=()",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// serve answers requests below root, and sends browsers there that ask for "/".
func (c *console) serve(w http.ResponseWriter, r *http.Request, from transport.Caller) bool {
	name, below := strings.CutPrefix(r.URL.Path, root)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	toConsole := r.URL.Path == strings.TrimSuffix(root, "/") || r.URL.Path == "/" && reads && strings.Contains(r.Header.Get("Accept"), "text/html")
	if !below && !toConsole {
		return false
	}
	for key, value := range headers {
		w.Header().Set(key, value)
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
	posts := name == "login" || name == "logout"
	switch {
	case posts && r.Method != http.MethodPost:
		notAllowed(w, "POST")
	case !posts && !reads:
		notAllowed(w, "GET, HEAD")
	case toConsole:
		http.Redirect(w, r, root, http.StatusFound)
	case name == "login":
		c.login(w, r, from)
	case name == "logout":
		c.logout(w, r, from)
	case name == "me":
		c.me(w, r, from)
	case name == oidcPath && c.SSO != nil:
		c.beginOIDC(w, r, from)
	case name == oidcBack && c.SSO != nil:
		c.finishOIDC(w, r, from)
	default:
		c.file(w, r, name)
	}
	return true
}

func notAllowed(w http.ResponseWriter, methods string) {
	w.Header().Set("Allow", methods)
	http.Error(w, "only "+methods+" is answered here", http.StatusMethodNotAllowed)
}
