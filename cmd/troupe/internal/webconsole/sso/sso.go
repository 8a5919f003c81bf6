// Package sso logs people in at the web console by a provider of OpenID Connect (OIDC): the authorization code flow with PKCE, a state and a nonce.
// The result is a login token, signed by the server and checked as any other token. docs/CONSOLE.md is for operators.
package sso

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

// Options are the options of a Provider.
type Options struct {
	Issuer     string        // the URL of the provider; "": there is none
	ClientID   string        // of this server at the provider
	SecretFile string        // has the client secret
	Scopes     []string      // beside openid
	Allow      []string      // CLAIM=VALUE: who may log in; one of them is enough. CLAIM=* is any value
	Lasts      time.Duration // how long a login lasts
}

const (
	// answerTime is how long the provider may take for an answer.
	answerTime = 10 * time.Second
	// minSecret is the length of the shortest client secret, in bytes: login tokens are signed with a key from the secret.
	minSecret = 16
	// prefix begins each login token.
	prefix = "troupe_login_"
	// tokenIssuer is the claim iss of each login token.
	tokenIssuer = "troupe console"
	// maxObserved bounds the identities that a login may observe.
	maxObserved = 1000
)

// A Provider logs people in. Any goroutine may call the methods.
type Provider struct {
	o      Options
	secret string
	key    []byte // of login tokens
	signer jose.Signer
	http   *http.Client

	asking sync.Mutex                    // held while the provider is asked for its configuration
	known  atomic.Pointer[oidc.Provider] // nil: the provider was not reached yet
}

// Open returns a provider. Open reads the secret, and does not contact the provider. All nodes of a cluster have the same secret, and accept the login
// tokens of each other.
func Open(o Options) (*Provider, error) {
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--console-oidc-issuer %q: write the URL of the provider, such as https://login.example.org", o.Issuer)
	}
	if name := u.Hostname(); u.Scheme == "http" && name != "localhost" && name != "127.0.0.1" && name != "::1" {
		return nil, fmt.Errorf("--console-oidc-issuer %q: whoever can change the network could log in as anybody: use https", o.Issuer)
	}
	switch {
	case o.ClientID == "" || o.SecretFile == "":
		return nil, errors.New("--console-oidc-issuer needs --console-oidc-client-id and --console-oidc-client-secret-file")
	case len(o.Allow) == 0:
		return nil, errors.New("--console-oidc-issuer needs --console-oidc-allow: write who may log in, such as groups=troupe, or sub=* for everybody whom the provider knows")
	case o.Lasts < time.Minute:
		return nil, fmt.Errorf("--console-oidc-lasts %v: choose a minute or more", o.Lasts)
	}
	for _, allow := range o.Allow {
		if claim, value, _ := strings.Cut(allow, "="); claim == "" || value == "" {
			return nil, fmt.Errorf("--console-oidc-allow %q: write CLAIM=VALUE, such as groups=troupe", allow)
		}
	}
	data, err := os.ReadFile(o.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("--console-oidc-client-secret-file: %w", err)
	}
	secret := string(bytes.TrimSpace(data))
	if len(secret) < minSecret {
		return nil, fmt.Errorf("--console-oidc-client-secret-file: the secret in %s has %d bytes, want %d or more", o.SecretFile, len(secret), minSecret)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s\x00%s\x00%s", tokenIssuer, o.Issuer, o.ClientID)
	p := &Provider{o: o, secret: secret, key: mac.Sum(nil), http: &http.Client{Timeout: answerTime}}
	p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: p.key}, nil)
	return p, err
}

// claims are the claims of a login token.
type claims struct {
	jwt.Claims
	Troupe roles `json:"troupe"`
}

// roles are as in the signed tokens of package auth.
type roles struct {
	Operator bool     `json:"operator,omitempty"`
	Observes []string `json:"observes,omitempty"`
}

// Check implements auth.Checker for login tokens.
func (p *Provider) Check(token string, now time.Time) (auth.Identity, error) {
	signed, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return auth.Identity{}, auth.ErrToken
	}
	t, err := jwt.ParseSigned(signed, []jose.SignatureAlgorithm{jose.HS256})
	var c claims
	if err != nil || t.Claims(p.key, &c) != nil || c.Expiry == nil {
		return auth.Identity{}, auth.ErrSignedToken
	}
	switch err := c.ValidateWithLeeway(jwt.Expected{Issuer: tokenIssuer, AnyAudience: jwt.Audience{p.o.ClientID}, Time: now}, 0); {
	case errors.Is(err, jwt.ErrExpired):
		return auth.Identity{}, auth.ErrExpired
	case err != nil:
		return auth.Identity{}, auth.ErrSignedToken
	}
	return auth.Identity{Name: "oidc:" + c.Subject, Operator: c.Troupe.Operator, Observes: c.Troupe.Observes, Until: c.Expiry.Time()}, nil
}

// issue returns a login token.
func (p *Provider) issue(subject string, r roles, now time.Time) (string, error) {
	signed, err := jwt.Signed(p.signer).Claims(claims{jwt.Claims{
		Issuer: tokenIssuer, Audience: jwt.Audience{p.o.ClientID}, Subject: subject, Expiry: jwt.NewNumericDate(now.Add(p.o.Lasts)),
	}, r}).Serialize()
	return prefix + signed, err
}

// An attempt is a login that has begun. The browser keeps it in a cookie until its end.
type attempt struct {
	State    string `json:"state"`    // comes back with the code
	Nonce    string `json:"nonce"`    // is in the ID token
	Verifier string `json:"verifier"` // of PKCE: a stolen code is worth nothing
}

// Begin returns the address of the provider to which a browser goes, and the text of a cookie for Finish. back is the address to which the browser comes back.
func (p *Provider) Begin(back string) (address, kept string, err error) {
	provider, err := p.discover()
	if err != nil {
		return "", "", err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	text, err := json.Marshal(a)
	if err != nil {
		return "", "", err
	}
	return p.flow(provider, back).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), base64.RawURLEncoding.EncodeToString(text), nil
}

// Finish returns the login token of a browser that comes back with the parameters answer. kept is the text of its cookie. The error is an
// *auth.Refusal if the person may not log in.
func (p *Provider) Finish(back, kept string, answer url.Values) (token string, err error) {
	var a attempt
	text, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || json.Unmarshal(text, &a) != nil || a.State == "" || a.Nonce == "" || a.Verifier == "" ||
		subtle.ConstantTimeCompare([]byte(a.State), []byte(answer.Get("state"))) != 1 {
		return "", &auth.Refusal{Text: "this browser has begun no such login: begin again"}
	}
	if why := answer.Get("error"); why != "" {
		return "", &auth.Refusal{Text: fmt.Sprintf("the provider refuses the login: %.100q", why)}
	}
	provider, err := p.discover()
	if err != nil {
		return "", err
	}
	got, err := p.flow(provider, back).Exchange(p.context(), answer.Get("code"), oauth2.VerifierOption(a.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < http.StatusInternalServerError {
		return "", &auth.Refusal{Text: fmt.Sprintf("the provider refuses the code: %.100q", refused.ErrorCode)}
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for a token: %w", p.o.Issuer, err)
	}
	raw, _ := got.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: p.o.ClientID}).Verify(p.context(), raw)
	if err != nil {
		return "", &auth.Refusal{Text: "the ID token is not right: " + err.Error()}
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return "", &auth.Refusal{Text: "the ID token is of another login: begin again"}
	}
	var all map[string]any
	var own struct{ Troupe roles }
	if id.Claims(&all) != nil || id.Claims(&own) != nil || id.Subject == "" || len(own.Troupe.Observes) > maxObserved {
		return "", &auth.Refusal{Text: "the claims of the ID token are not right"}
	}
	if !allowed(p.o.Allow, all) {
		return "", &auth.Refusal{Text: fmt.Sprintf("%.300q may not log in here: the operator allows it with --console-oidc-allow", id.Subject)}
	}
	return p.issue(id.Subject, own.Troupe, time.Now())
}

// allowed reports whether one of the rules CLAIM=VALUE holds. A claim may be a text, a number, true or false, or a list of these.
// Rules about email fail for an address unverified by the provider (email_verified).
func allowed(rules []string, claims map[string]any) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		name, want, _ := strings.Cut(rule, "=")
		if verified, says := claims["email_verified"]; name == "email" && says && fmt.Sprint(verified) != "true" {
			return false
		}
		values, isList := claims[name].([]any)
		if claim := claims[name]; claim != nil && !isList {
			values = []any{claim}
		}
		return slices.ContainsFunc(values, func(v any) bool { return want == "*" || fmt.Sprint(v) == want })
	})
}

func (p *Provider) flow(provider *oidc.Provider, back string) *oauth2.Config {
	return &oauth2.Config{ClientID: p.o.ClientID, ClientSecret: p.secret, Endpoint: provider.Endpoint(), RedirectURL: back, Scopes: append([]string{oidc.ScopeOpenID}, p.o.Scopes...)}
}

// context returns the context of a request to the provider. The request goes on when the browser leaves: otherwise a stranger who leaves at once could
// have codes tried without limit, because no login turned out to be wrong.
func (p *Provider) context() context.Context { return oidc.ClientContext(context.Background(), p.http) }

// discover returns the provider, and asks it for its configuration the first time. Only one caller at a time waits for the answer.
func (p *Provider) discover() (*oidc.Provider, error) {
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	if !p.asking.TryLock() {
		return nil, fmt.Errorf("%s has not answered yet", p.o.Issuer)
	}
	defer p.asking.Unlock()
	known, err := oidc.NewProvider(p.context(), p.o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its configuration: %w", p.o.Issuer, err)
	}
	p.known.Store(known)
	return known, nil
}
