package sso

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testoidc"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

const back = "https://build.example.org/console/oidc/callback"

func options(t *testing.T, p *testoidc.Provider) Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(testoidc.Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{Issuer: p.URL, ClientID: testoidc.ClientID, SecretFile: file, Scopes: []string{"groups"}, Allow: []string{"groups=troupe"}, Lasts: time.Hour}
}

func open(t *testing.T, o Options) *Provider {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin begins a login, and returns the answer of the provider, with which the browser comes back.
func begin(t *testing.T, s *Provider, p *testoidc.Provider) (kept string, answer url.Values) {
	t.Helper()
	address, kept, err := s.Begin(back)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(p.Authorize(address))
	if err != nil || !strings.HasPrefix(u.String(), back+"?") {
		t.Fatalf("the browser comes back to %s, %v", u, err)
	}
	return kept, u.Query()
}

// refused checks that a login ends with a Refusal.
func refused(t *testing.T, what string, err error, text string) {
	t.Helper()
	if why, ok := errors.AsType[*auth.Refusal](err); !ok || !strings.Contains(why.Text, text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

// TestLogin: who is allowed to log in gets a token that names the person, has their roles and ends.
func TestLogin(t *testing.T) {
	p := testoidc.New(t)
	s := open(t, options(t, p))
	p.Change(map[string]any{"troupe": map[string]any{"operator": true, "observes": []string{"alice"}}})
	kept, answer := begin(t, s, p)
	token, err := s.Finish(back, kept, answer)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	id, err := s.Check(token, now)
	if err != nil || id.Name != "oidc:erin" || !id.Operator || !slices.Equal(id.Observes, []string{"alice"}) || id.Until.Before(now.Add(59*time.Minute)) || id.Until.After(now.Add(time.Hour)) {
		t.Errorf("%+v, %v", id, err)
	}
	if _, err := s.Check(token, now.Add(time.Hour+time.Second)); err != auth.ErrExpired {
		t.Errorf("after an hour: %v", err)
	}
	if id, err := open(t, options(t, p)).Check(token, now); err != nil || id.Name != "oidc:erin" {
		t.Errorf("another node: %+v, %v", id, err)
	}
	// The provider rotates its keys.
	p.Rotate(t)
	kept, answer = begin(t, s, p)
	if _, err := s.Finish(back, kept, answer); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
}

// TestLoginRefused: a login that another browser has begun, that was changed on its way, or whose ID token is not right, gives no token.
func TestLoginRefused(t *testing.T) {
	p := testoidc.New(t)
	s := open(t, options(t, p))
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		claims map[string]any
		text   string
	}{
		"another nonce":      {map[string]any{"nonce": "x"}, "of another login"},
		"no nonce":           {map[string]any{"nonce": nil}, "of another login"},
		"another audience":   {map[string]any{"aud": "other"}, "not right"},
		"another issuer":     {map[string]any{"iss": "https://evil.example"}, "not right"},
		"expired":            {map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, "not right"},
		"another key":        {map[string]any{"key": other}, "not right"},
		"no subject":         {map[string]any{"sub": nil}, "not right"},
		"another group":      {map[string]any{"groups": []string{"guests", "troupe2"}}, "may not log in"},
		"no group":           {map[string]any{"groups": nil}, "may not log in"},
		"roles of no form":   {map[string]any{"troupe": 5}, "not right"},
		"the group as a key": {map[string]any{"groups": map[string]any{"troupe": true}}, "may not log in"},
	} {
		p.Change(c.claims)
		kept, answer := begin(t, s, p)
		token, err := s.Finish(back, kept, answer)
		if refused(t, what, err, c.text); token != "" {
			t.Errorf("%s: a token", what)
		}
	}
	p.Change(nil)
	kept, answer := begin(t, s, p)
	keptOther, answerOther := begin(t, s, p)
	_, err = s.Finish(back, "", answer)
	refused(t, "a browser without a cookie", err, "begun no such login")
	_, err = s.Finish(back, "e30", answer)
	refused(t, "an empty cookie", err, "begun no such login")
	_, err = s.Finish(back, keptOther, answer)
	refused(t, "another browser", err, "begun no such login")
	_, err = s.Finish(back, kept, url.Values{"state": answer["state"], "code": answerOther["code"]})
	refused(t, "the code of another login", err, "invalid_grant") // its challenge is another one
	_, err = s.Finish(back, kept, url.Values{"state": answer["state"], "error": {"access_denied"}})
	refused(t, "a refusal of the provider", err, "access_denied")
	if _, err := s.Finish(back, kept, answer); err != nil {
		t.Errorf("the right login: %v", err)
	}
	_, err = s.Finish(back, kept, answer)
	refused(t, "a code again", err, "invalid_grant")
	kept, answer = begin(t, s, p)
	_, err = s.Finish("https://other.example.org/console/oidc/callback", kept, answer)
	refused(t, "another address", err, "invalid_grant")
}

// TestTokensOfOthers: only tokens that a server with the same secret has made for the same client are right.
func TestTokensOfOthers(t *testing.T) {
	p := testoidc.New(t)
	s := open(t, options(t, p))
	otherSecret, otherClient, otherIssuer := options(t, p), options(t, p), options(t, p)
	os.WriteFile(otherSecret.SecretFile, []byte("another secret of the client"), 0o600)
	otherClient.ClientID, otherIssuer.Issuer = "other", "https://login.example.org"
	for what, o := range map[string]Options{"secret": otherSecret, "client": otherClient, "issuer": otherIssuer} {
		token, err := open(t, o).issue("erin", roles{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if id, err := s.Check(token, time.Now()); err != auth.ErrSignedToken {
			t.Errorf("a token of another %s: %+v, %v", what, id, err)
		}
	}
	token, _ := s.issue("erin", roles{}, time.Now())
	for _, wrong := range []string{"", "x", prefix, prefix + "x", token + "x", token[len(prefix):], strings.Replace(token, ".", "..", 1)} {
		if id, err := s.Check(wrong, time.Now()); err != auth.ErrToken && err != auth.ErrSignedToken {
			t.Errorf("%.40q: %+v, %v", wrong, id, err)
		}
	}
}

// TestSickProvider: a provider that cannot be asked is no refusal, and is asked again.
func TestSickProvider(t *testing.T) {
	p := testoidc.New(t)
	s := open(t, options(t, p))
	p.Sick(true)
	_, _, err := s.Begin(back)
	if _, ok := errors.AsType[*auth.Refusal](err); err == nil || ok {
		t.Errorf("begin: %v", err)
	}
	p.Sick(false)
	kept, answer := begin(t, s, p)
	p.Sick(true)
	_, err = s.Finish(back, kept, answer)
	if _, ok := errors.AsType[*auth.Refusal](err); err == nil || ok {
		t.Errorf("finish: %v", err)
	}
	s.asking.Lock()
	s.known.Store(nil)
	if _, _, err := s.Begin(back); err == nil || !strings.Contains(err.Error(), "not answered yet") {
		t.Errorf("while another login asks: %v", err)
	}
	s.asking.Unlock()
}

// TestOpenRefuses: wrong options are errors that name the option.
func TestOpenRefuses(t *testing.T) {
	p := testoidc.New(t)
	for text, change := range map[string]func(*Options){
		`--console-oidc-issuer "login.example.org"`:                      func(o *Options) { o.Issuer = "login.example.org" },
		`--console-oidc-issuer "http://login.example.org"`:               func(o *Options) { o.Issuer = "http://login.example.org" },
		`--console-oidc-issuer "https://login.example.org?x"`:            func(o *Options) { o.Issuer = "https://login.example.org?x" },
		"needs --console-oidc-client-id":                                 func(o *Options) { o.ClientID = "" },
		"needs --console-oidc-allow":                                     func(o *Options) { o.Allow = nil },
		`--console-oidc-allow "troupe": write CLAIM=VALUE`:               func(o *Options) { o.Allow = []string{"troupe"} },
		"--console-oidc-lasts 0s":                                        func(o *Options) { o.Lasts = 0 },
		"--console-oidc-client-secret-file: open /nonexistent":           func(o *Options) { o.SecretFile = "/nonexistent" },
		"--console-oidc-client-secret-file: the secret in " + os.DevNull: func(o *Options) { o.SecretFile = os.DevNull },
	} {
		o := options(t, p)
		change(&o)
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

// TestAllowed: a rule compares a claim of any simple kind, or a member of a list.
func TestAllowed(t *testing.T) {
	claims := map[string]any{"sub": "erin", "groups": []any{"a", "b"}, "admin": true, "level": 3.0, "none": nil, "empty": []any{}}
	for rule, want := range map[string]bool{
		"sub=erin": true, "sub=*": true, "sub=er": false, "groups=b": true, "groups=[a b]": false, "groups=*": true, "empty=*": false,
		"admin=true": true, "admin=false": false, "level=3": true, "other=*": false, "none=*": false, "other=<nil>": false,
	} {
		if got := allowed([]string{"x=y", rule}, claims); got != want {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

// TestUnverifiedEmail: a person with the address of somebody else at the provider may not log in by this address, unless the provider is silent about
// verification.
func TestUnverifiedEmail(t *testing.T) {
	for _, c := range []struct {
		claims map[string]any
		want   bool
	}{
		{map[string]any{"email_verified": true}, true},
		{map[string]any{"email_verified": "true"}, true}, // as AWS Cognito has it
		{map[string]any{}, true},
		{map[string]any{"email_verified": false}, false},
		{map[string]any{"email_verified": "false"}, false},
		{map[string]any{"email_verified": nil}, false},
	} {
		c.claims["email"] = "ann@example.org"
		for _, rule := range []string{"email=ann@example.org", "email=*"} {
			if got := allowed([]string{rule}, c.claims); got != c.want {
				t.Errorf("%s of %v: %v", rule, c.claims, got)
			}
		}
		if !allowed([]string{"email=x", "sub=erin"}, map[string]any{"sub": "erin", "email_verified": c.claims["email_verified"]}) {
			t.Errorf("another claim does not count with %v", c.claims)
		}
	}
}
