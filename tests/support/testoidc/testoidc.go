// Package testoidc is a provider of OpenID Connect for tests.
package testoidc

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The client of a Provider.
const (
	ClientID = "troupe-test"
	Secret   = "the-secret-of-the-client"
)

// A Provider knows one person, and a client.
type Provider struct {
	*httptest.Server

	mu     sync.Mutex
	key    *rsa.PrivateKey
	keys   int // so far
	change map[string]any
	codes  map[string]url.Values // the requests for which a code was given
	sick   bool
}

// New returns a provider that ends with the test.
func New(t testing.TB) *Provider {
	p := &Provider{codes: make(map[string]url.Values)}
	p.Rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", p.configuration)
	mux.HandleFunc("/keys", p.jwks)
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.Authorize(r.URL.String()), http.StatusFound)
	})
	mux.HandleFunc("/token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		sick := p.sick
		p.mu.Unlock()
		if sick {
			http.Error(w, "sick", http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Rotate gives the provider another key.
func (p *Provider) Rotate(t testing.TB) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.keys = key, p.keys+1
}

// Change changes the claims of later ID tokens. Nil: the token lacks the claim. "key" is no claim: another key signs.
func (p *Provider) Change(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = claims
}

// Sick has the provider answer each request with 500, or not.
func (p *Provider) Sick(sick bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = sick
}

// Authorize is the person who logs in at an address, and returns the address to which the browser goes back.
func (p *Provider) Authorize(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	asked := u.Query()
	code := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[code] = asked
	return asked.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode()
}

func (p *Provider) configuration(w http.ResponseWriter, _ *http.Request) {
	json.NewEncoder(w).Encode(map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
	})
}

func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: fmt.Sprint(p.keys), Algorithm: "RS256", Use: "sig"}}})
}

// token gives an ID token for a code, once, to the client with the secret, the verifier and the same address.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	asked := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if asked == nil || id != ClientID || secret != Secret || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("redirect_uri") != r.FormValue("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "sub": "erin", "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(5 * time.Minute).Unix(), "groups": []string{"troupe", "staff"}}
	maps.Copy(claims, p.change)
	key := p.key
	if other, ok := claims["key"].(*rsa.PrivateKey); ok {
		key = other
	}
	maps.DeleteFunc(claims, func(name string, value any) bool { return value == nil || name == "key" })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: fmt.Sprint(p.keys)}}, nil)
	if err != nil {
		panic(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"access_token": "unused", "token_type": "Bearer", "id_token": token})
}
