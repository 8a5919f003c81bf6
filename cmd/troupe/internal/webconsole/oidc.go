package webconsole

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

const (
	oidcPath = "oidc"          // begins a login
	oidcBack = "oidc/callback" // ends a login: the provider sends the browser back here
	// oidcTime is how long a person may take at the provider.
	oidcTime = 10 * time.Minute
)

// backPage tells a person why a login failed, and leads back to the console.
const backPage = `<!doctype html>
<html lang="en">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="%[2]sicon.svg">
<title>Not logged in</title>
<main><h1>Not logged in</h1>
<p>%[1]s</p>
<p><a href="%[2]s">Back to the console</a></p></main>
`

// attemptCookie returns the cookie of a login that has begun. SameSite=Lax: the browser also sends this cookie when the provider leads the browser
// back.
func attemptCookie(r *http.Request, from transport.Caller, value string) *http.Cookie {
	secure := strings.HasPrefix(from.Origin, "https://")
	return &http.Cookie{Name: cookieName(r.Host, secure) + "-oidc", Value: value, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode, MaxAge: int(oidcTime.Seconds())}
}

// beginOIDC sends a browser to the provider.
func (c *console) beginOIDC(w http.ResponseWriter, r *http.Request, from transport.Caller) {
	w.Header().Set("Cache-Control", "no-store")
	address, kept, err := c.SSO.Begin(from.Origin + root + oidcBack)
	if err != nil {
		c.Failed("OIDC", err)
		unable(w)
		return
	}
	http.SetCookie(w, attemptCookie(r, from, kept))
	http.Redirect(w, r, address, http.StatusFound)
}

// finishOIDC gives the browser its credential, and sends it to the console: nothing in the request says to where.
func (c *console) finishOIDC(w http.ResponseWriter, r *http.Request, from transport.Caller) {
	w.Header().Set("Cache-Control", "no-store")
	cookie, kept := attemptCookie(r, from, ""), ""
	if all := r.CookiesNamed(cookie.Name); len(all) == 1 {
		kept = all[0].Value
	}
	// Without the cookie nothing is tried, so nothing counts: otherwise a page of somebody else, which can have its visitor's browser come here, could keep
	// the visitor from logging in.
	if kept != "" && c.guesses(w, from) {
		return
	}
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
	credential, err := c.SSO.Finish(from.Origin+root+oidcBack, kept, r.URL.Query())
	if err == nil {
		_, err = c.identify(r, from, credential)
	}
	if refused, ok := errors.AsType[*auth.Refusal](err); ok {
		c.Refused(from.Remote, "OIDC: "+refused.Text)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, backPage, html.EscapeString(refused.Text), root)
		return
	}
	c.wrong.right(from.Peer)
	switch {
	case err != nil:
		c.Failed("OIDC", err)
		unable(w)
	case len(credential) > maxCredential:
		http.Error(w, "the login has too many roles for a cookie", http.StatusRequestEntityTooLarge)
	default:
		setCookie(w, r, credential, cookie.Secure, 0)
		http.Redirect(w, r, root, http.StatusFound)
	}
}
