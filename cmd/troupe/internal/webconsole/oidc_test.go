package webconsole

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/webconsole/sso"
	"github.com/b6f6fdd7/troupe/tests/support/testoidc"
	"github.com/b6f6fdd7/troupe/transport"
)

// An oidcLab is a console where people log in by a provider.
type oidcLab struct {
	*lab
	provider *testoidc.Provider
	failed   []error
}

func newOIDCLab(t *testing.T) *oidcLab {
	t.Helper()
	o := &oidcLab{provider: testoidc.New(t)}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(testoidc.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sso.Open(sso.Options{Issuer: o.provider.URL, ClientID: testoidc.ClientID, SecretFile: file, Allow: []string{"sub=*"}, Lasts: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	o.lab = newLab(Options{SSO: s, Failed: func(_ string, err error) { o.failed = append(o.failed, err) }})
	o.door.Bearer = s
	return o
}

var fromBrowser = transport.Caller{Peer: "192.0.2.1", Remote: "192.0.2.1:1", Origin: "http://127.0.0.1:7766"}

// comesBack begins a login, and returns the request with which the browser comes back from the provider.
func (o *oidcLab) comesBack(t *testing.T) *http.Request {
	t.Helper()
	resp := o.ask(t, at("GET", "/console/oidc", ""), fromBrowser)
	u, err := url.Parse(o.provider.Authorize(resp.Header.Get("Location")))
	if err != nil {
		t.Fatal(err)
	}
	r := at("GET", u.RequestURI(), "")
	r.AddCookie(resp.Cookies()[0])
	return r
}

// TestSubjects: a person whose name cannot be shown is refused, and the server does not say that it is unable.
func TestSubjects(t *testing.T) {
	o := newOIDCLab(t)
	for subject, status := range map[string]int{"erin": 302, strings.Repeat("e", 252): 401, "erin\u202e": 401} {
		o.provider.Change(map[string]any{"sub": subject})
		resp := o.ask(t, o.comesBack(t), fromBrowser)
		if text := bodyOf(t, resp); resp.StatusCode != status || status == 401 && !strings.Contains(text, "the name in the credential") {
			t.Errorf("%.20q: %s %s, want %d", subject, resp.Status, text, status)
		}
	}
	if len(o.refused) != 2 || o.failed != nil {
		t.Errorf("refused: %q, failed: %v", o.refused, o.failed)
	}
}

// TestBrowsersThatLeave: whoever has codes tried at the provider waits after some wrong ones, although no browser is there for the answers.
func TestBrowsersThatLeave(t *testing.T) {
	o := newOIDCLab(t)
	left, leave := context.WithCancel(t.Context())
	leave()
	for i := range 50 {
		r := o.comesBack(t)
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "code=", "code=x", 1)
		if resp := o.ask(t, r.WithContext(left), fromBrowser); resp.StatusCode == 429 {
			break
		} else if i == 49 || resp.StatusCode != 401 {
			t.Fatalf("wrong code %d: %s, failed: %v", i, resp.Status, o.failed)
		}
	}
}

// TestStrangersComeBack: a page of somebody else that has its visitor's browser come back without a login uses up no wrong login of the visitor.
func TestStrangersComeBack(t *testing.T) {
	o := newOIDCLab(t)
	for range 3 * guessRate.Burst {
		if resp := o.ask(t, at("GET", "/console/oidc/callback?code=x&state=x", ""), fromBrowser); resp.StatusCode != 401 {
			t.Fatal(resp.Status)
		}
	}
	if resp := o.ask(t, o.comesBack(t), fromBrowser); resp.StatusCode != 302 {
		t.Errorf("the login of the visitor: %s", resp.Status)
	}
}

// TestRefusedInWords: a person who comes back without a login reads why, and finds the way to the console. The page shows nothing of the provider as markup.
func TestRefusedInWords(t *testing.T) {
	o := newOIDCLab(t)
	r := o.comesBack(t)
	r.URL.RawQuery = "error=<script>&" + r.URL.RawQuery
	resp := o.ask(t, r, fromBrowser)
	text := bodyOf(t, resp)
	if resp.StatusCode != 401 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(text, "the provider refuses the login: &#34;&lt;script&gt;") || strings.Contains(text, "<script") || !strings.Contains(text, `<a href="/console/">`) {
		t.Errorf("%s, %s: %s", resp.Status, resp.Header.Get("Content-Type"), text)
	}
}
