package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/linefile"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.TempDir(), path)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// want checks a token: name is of the identity, or refusal is the error.
func want(t *testing.T, c Checker, token, name string, refusal error) {
	t.Helper()
	id, err := c.Check(token, time.Now())
	if id.Name != name || err != refusal {
		t.Errorf("identity %q, error %v, want %q and %v", id.Name, err, name, refusal)
	}
}

func TestFromHeader(t *testing.T) {
	for _, c := range []struct {
		values []string
		token  string
		err    error
	}{
		{nil, "", ErrMissing},
		{[]string{"Bearer abc"}, "abc", nil},
		{[]string{"bEARER   abc "}, "abc", nil},
		{[]string{"Bearer"}, "", ErrHeader},
		{[]string{"Bearer  "}, "", ErrHeader},
		{[]string{"Basic abc"}, "", ErrHeader},
		{[]string{"abc"}, "", ErrHeader},
		{[]string{""}, "", ErrHeader},
		{[]string{"Bearer abc", "Bearer abc"}, "", ErrHeader},
		{[]string{"Basic abc", "Bearer abc"}, "", ErrHeader},
		{[]string{"Bearer\tabc"}, "", ErrHeader},
		{[]string{"Bearer abc, Basic abc"}, "abc, Basic abc", nil},
		{[]string{"Bearer tökén"}, "tökén", nil},
		{[]string{"Bearer " + strings.Repeat("a", MaxToken)}, strings.Repeat("a", MaxToken), nil},
		{[]string{"Bearer " + strings.Repeat("a", MaxToken+1)}, "", ErrHeader},
	} {
		token, err := FromHeader(http.Header{"Authorization": c.values})
		if token != c.token || err != c.err {
			t.Errorf("%.40q: %.40q, %v, want %.40q, %v", c.values, token, err, c.token, c.err)
		}
	}
}

func sha(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestTokens(t *testing.T) {
	path := write(t, "tokens", "# people\n\nalice alice-has-a-token\n  bob\tsha256:"+sha("bob-has-a-token-too")+"\nalice alices-second-token\n")
	c := must[*Tokens](t)(OpenTokens(path))
	want(t, c, "alice-has-a-token", "alice", nil)
	want(t, c, "alices-second-token", "alice", nil)
	want(t, c, "bob-has-a-token-too", "bob", nil)
	for _, wrong := range []string{"", "alice", "ALICE-HAS-A-TOKEN", "alice-has-a-toke", "alice-has-a-token2", "sha256:" + sha("bob-has-a-token-too"), sha("bob-has-a-token-too")} {
		want(t, c, wrong, "", ErrToken)
	}
}

// Files of any editor: with CRLF, without the last newline, with tabs and UTF-8. A NUL belongs to the token.
func TestFormsOfTokenFiles(t *testing.T) {
	for text, token := range map[string]string{
		"# people\r\n\r\nalice alice-has-a-token\r\n": "alice-has-a-token",
		"alice alice-has-a-token":                     "alice-has-a-token",
		"alice\talice-has-a-token\n\n\n":              "alice-has-a-token",
		"alice alice-has-a-tökén\n":                   "alice-has-a-tökén",
		"alice alice-has-a-token\x00\n":               "alice-has-a-token\x00",
	} {
		want(t, must[*Tokens](t)(OpenTokens(write(t, "tokens", text))), token, "alice", nil)
	}
}

// The longest token that a request may have may stand in the file, and no longer one.
func TestLongestToken(t *testing.T) {
	longest := strings.Repeat("t", MaxToken)
	want(t, must[*Tokens](t)(OpenTokens(write(t, "tokens", "alice "+longest+"\n"))), longest, "alice", nil)
	if _, err := OpenTokens(write(t, "tokens", "alice "+longest+"t\n")); err == nil {
		t.Error("a token of more than MaxToken bytes is accepted")
	}
}

func TestTokensAreReadAgain(t *testing.T) {
	path := write(t, "tokens", "alice the-old-token-of-alice\n")
	c := must[*Tokens](t)(OpenTokens(path))
	for range 100 { // of the same length, and within one tick of the clock of files
		write(t, path, "alice the-new-token-of-alice\n")
		want(t, c, "the-old-token-of-alice", "", ErrToken)
		want(t, c, "the-new-token-of-alice", "alice", nil)
		write(t, path, "alice the-old-token-of-alice\n")
		want(t, c, "the-old-token-of-alice", "alice", nil)
	}
	write(t, path, "alice\n")
	if id, err := c.Check("the-old-token-of-alice", time.Now()); id.Name != "" || err == nil || !strings.Contains(err.Error(), "line 1: it has 1 words") {
		t.Errorf("with a malformed file: %q, %v", id.Name, err)
	}
	os.Remove(path)
	if id, err := c.Check("the-old-token-of-alice", time.Now()); id.Name != "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %q, %v", id.Name, err)
	}
	write(t, path, "alice the-old-token-of-alice\n")
	want(t, c, "the-old-token-of-alice", "alice", nil)
}

func TestWrongTokenFiles(t *testing.T) {
	for _, c := range []struct{ text, problem string }{
		{"", "no token"},
		{"# nothing\n", "no token"},
		{"my-only-secret-token\n", "line 1: it has 1 words"},
		{"# a\nalice my-only-secret-token more\n", "line 2: it has 3 words"},
		{"alice 15-bytes-secret\n"[:len("alice ")+15], "the token has 15 bytes, want 16 to 8192"},
		{"alice sha256:my-only-secret-token\n", "want 64 hexadecimal digits"},
		{"jwt:alice my-only-secret-token\n", "the name has a colon"},
		{"* my-only-secret-token\n", "line 1: the name * has a meaning of its own"},
		{"@server my-only-secret-token\n", "line 1: the name @server has a meaning of its own"},
		{"alice my-only-secret-token\nbob my-only-secret-token\n", "line 2: bob has the token of alice"},
		{"alice my-only-secret-token\nbob sha256:" + sha("my-only-secret-token") + "\n", "line 2: bob has the token of alice"},
		{strings.Repeat("#", linefile.Max+1), "more than 262144 bytes"},
	} {
		_, err := OpenTokens(write(t, "tokens", c.text))
		if err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.problem)
		} else if strings.Contains(err.Error(), "secret-token") {
			t.Errorf("the error shows a token: %v", err)
		}
	}
	if _, err := OpenTokens(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := OpenTokens("/nonexistent"); err == nil || err.Error() != "failed to read websocket auth secret /nonexistent: no such file or directory" {
		t.Errorf("no file: %v", err)
	}
}

func TestSingleTokens(t *testing.T) {
	path := write(t, "token", "  s3cret\n")
	c := must[*Tokens](t)(OpenSingleToken(path))
	want(t, c, "s3cret", "token", nil)
	want(t, c, "wrong", "", ErrToken)
	write(t, path, "rotated")
	want(t, c, "s3cret", "", ErrToken)
	want(t, c, "rotated", "token", nil)
	if _, err := OpenSingleToken(write(t, "token", " \n")); err == nil || !strings.HasSuffix(err.Error(), "must not be empty") {
		t.Errorf("an empty file: %v", err)
	}
	d := must[*TokenDigest](t)(ParseTokenDigest(strings.ToUpper(sha("s3cret"))))
	want(t, d, "s3cret", "token", nil)
	want(t, d, sha("s3cret"), "", ErrToken)
	for _, wrong := range []string{"", "not-a-sha256", sha("a")[1:], sha("a") + "00"} {
		if _, err := ParseTokenDigest(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// issue returns a token with claims, signed by key.
func issue(t *testing.T, alg jose.SignatureAlgorithm, key any, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	return must[string](t)(jwt.Signed(signer).Claims(claims).Serialize())
}

type claims = map[string]any

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

const hmacSecret = "0123456789abcdef0123456789abcdef"

func TestClaims(t *testing.T) {
	path := write(t, "secret", hmacSecret+"\n")
	open := func(o SignedOptions) Checker {
		o.Skew = 30 * time.Second
		return must[*SignedTokens](t)(OpenSecret(path, o))
	}
	anybody := open(SignedOptions{})
	strict := open(SignedOptions{Issuer: "issuer", Audience: "us"})
	for _, c := range []struct {
		what   string
		open   Checker
		claims claims
		name   string
		err    error
	}{
		{"right", anybody, claims{"sub": "alice", "exp": in(time.Hour)}, "jwt:alice", nil},
		{"no subject", anybody, claims{"exp": in(time.Hour)}, "", ErrSignedToken},
		{"an empty subject", anybody, claims{"sub": "", "exp": in(time.Hour)}, "", ErrSignedToken},
		{"no subject, as of exec-server", open(SignedOptions{Nameless: true}), claims{"exp": in(time.Hour)}, "jwt:", nil},
		{"exp is negative", anybody, claims{"sub": "a", "exp": -1}, "", ErrExpired},
		{"exp is a fraction", anybody, claims{"sub": "a", "exp": float64(in(time.Hour)) + 0.5}, "jwt:a", nil},
		{"exp beyond an int64", anybody, claims{"sub": "a", "exp": 1e19}, "", ErrSignedToken},
		{"sub is a number", anybody, claims{"sub": 5, "exp": in(time.Hour)}, "", ErrSignedToken},
		{"SUB is no sub", anybody, claims{"sub": "a", "SUB": "b", "exp": in(time.Hour)}, "jwt:a", nil},
		{"expired, within the skew", anybody, claims{"sub": "a", "exp": in(-20 * time.Second)}, "jwt:a", nil},
		{"expired", anybody, claims{"sub": "a", "exp": in(-2 * time.Minute)}, "", ErrExpired},
		{"without exp", anybody, claims{"sub": "a"}, "", ErrSignedToken},
		{"exp is text", anybody, claims{"sub": "a", "exp": "tomorrow"}, "", ErrSignedToken},
		{"exp beyond all time", anybody, claims{"sub": "a", "exp": 1e30}, "", ErrSignedToken},
		{"not yet", anybody, claims{"sub": "a", "exp": in(time.Hour), "nbf": in(2 * time.Minute)}, "", ErrNotYet},
		{"not yet, within the skew", anybody, claims{"sub": "a", "exp": in(time.Hour), "nbf": in(20 * time.Second)}, "jwt:a", nil},
		{"right issuer and audience", strict, claims{"sub": "a", "exp": in(time.Hour), "iss": "issuer", "aud": "us"}, "jwt:a", nil},
		{"one of the audiences", strict, claims{"sub": "a", "exp": in(time.Hour), "iss": "issuer", "aud": []string{"them", "us"}}, "jwt:a", nil},
		{"wrong issuer", strict, claims{"exp": in(time.Hour), "iss": "other", "aud": "us"}, "", ErrSignedToken},
		{"no issuer", strict, claims{"exp": in(time.Hour), "aud": "us"}, "", ErrSignedToken},
		{"wrong audience", strict, claims{"exp": in(time.Hour), "iss": "issuer", "aud": "them"}, "", ErrSignedToken},
		{"no audience", strict, claims{"exp": in(time.Hour), "iss": "issuer"}, "", ErrSignedToken},
		{"nobody asks for an audience", anybody, claims{"sub": "a", "exp": in(time.Hour), "aud": "them"}, "jwt:a", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			want(t, c.open, issue(t, jose.HS256, []byte(hmacSecret), c.claims), c.name, c.err)
		})
	}
	_, err := OpenSecret(write(t, "short", hmacSecret[1:]), SignedOptions{})
	if !errors.Is(err, ErrShortSecret) {
		t.Errorf("a secret of 31 bytes: %v", err)
	}
}

// forged returns a token with any header.
func forged(header string, c claims, sign func(input string) []byte) string {
	body, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	enc := base64.RawURLEncoding
	input := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString(body)
	return input + "." + enc.EncodeToString(sign(input))
}

func publicPEM(t *testing.T, key crypto.PublicKey) string {
	der := must[[]byte](t)(x509.MarshalPKIXPublicKey(key))
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestKeysAndTheirAlgorithms(t *testing.T) {
	rsaKey := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	ecKey := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	edPublic, edKey, _ := ed25519.GenerateKey(rand.Reader)
	pems := publicPEM(t, rsaKey.Public()) + publicPEM(t, ecKey.Public()) + publicPEM(t, edPublic)
	byPEM := must[*SignedTokens](t)(OpenKeys(write(t, "keys.pem", pems), SignedOptions{}))
	set := must[[]byte](t)(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: rsaKey.Public(), KeyID: "r", Algorithm: "RS256"}, {Key: ecKey.Public(), KeyID: "e"}, {Key: edPublic}, {Key: []byte(hmacSecret), KeyID: "s"},
		{Key: rsaKey.Public(), Use: "enc", Algorithm: "RSA-OAEP"},
	}}))
	bySet := must[*SignedTokens](t)(OpenKeys(write(t, "keys.json", string(set)), SignedOptions{}))

	right := claims{"sub": "a", "exp": in(time.Hour)}
	for _, c := range []Checker{byPEM, bySet} {
		want(t, c, issue(t, jose.RS256, rsaKey, right), "jwt:a", nil)
		want(t, c, issue(t, jose.ES256, ecKey, right), "jwt:a", nil)
		want(t, c, issue(t, jose.EdDSA, edKey, right), "jwt:a", nil)
		want(t, c, issue(t, jose.RS512, rsaKey, right), "", ErrSignedToken)
		want(t, c, issue(t, jose.PS256, rsaKey, right), "", ErrSignedToken)
		want(t, c, issue(t, jose.HS256, []byte(strings.Repeat("x", 32)), right), "", ErrSignedToken)
		want(t, c, issue(t, jose.ES256, must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), right), "", ErrSignedToken)

		// The public key as the secret of an HMAC, in each form that a server may have it in.
		for _, public := range []string{pems, publicPEM(t, rsaKey.Public()), strings.TrimSpace(publicPEM(t, rsaKey.Public())), string(edPublic)} {
			want(t, c, issue(t, jose.HS256, []byte(public), right), "", ErrSignedToken)
		}
		none := func(string) []byte { return nil }
		for _, alg := range []string{"none", "None", "NONE", ""} {
			want(t, c, forged(`{"alg":"`+alg+`","typ":"JWT"}`, right, none), "", ErrSignedToken)
		}
		whole := issue(t, jose.EdDSA, edKey, right)
		parts := strings.Split(whole, ".")
		for _, wrong := range []string{"", "a.b.c", parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".", whole + "A", "." + whole, whole[1:],
			parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root","exp":9999999999}`)) + "." + parts[2]} {
			want(t, c, wrong, "", ErrSignedToken)
		}
	}
	// A token cannot bring its own key.
	own := must[[]byte](t)(json.Marshal(jose.JSONWebKey{Key: ed25519.PublicKey(edPublic)}))
	_, strange, _ := ed25519.GenerateKey(rand.Reader)
	sign := func(input string) []byte { return ed25519.Sign(strange, []byte(input)) }
	want(t, byPEM, forged(`{"alg":"EdDSA","jwk":`+string(own)+`}`, right, sign), "", ErrSignedToken)
	// kid chooses the key.
	named := func(kid string) string {
		signer := must[jose.Signer](t)(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: rsaKey, KeyID: kid}}, nil))
		return must[string](t)(jwt.Signed(signer).Claims(right).Serialize())
	}
	want(t, bySet, named("r"), "jwt:a", nil)
	want(t, bySet, named("e"), "", ErrSignedToken)
	want(t, byPEM, named("anything"), "jwt:a", nil)
}

func TestWrongKeys(t *testing.T) {
	small := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must[[]byte](t)(x509.MarshalPKCS8PrivateKey(p384))})
	jwks := func(k jose.JSONWebKey) string {
		return string(must[[]byte](t)(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k}})))
	}
	for _, c := range []struct{ what, text, problem string }{
		{"empty", "", "neither a JSON Web Key Set nor a PUBLIC KEY"},
		{"no PEM", "ssh-ed25519 AAAA", "neither a JSON Web Key Set nor a PUBLIC KEY"},
		{"private PEM", string(private), `"PRIVATE KEY" is not a PUBLIC KEY`},
		{"small RSA", publicPEM(t, small.Public()), "1024 bits; use one of at least 2048"},
		{"P-384", publicPEM(t, p384.Public()), "curve P-384, want P-256"},
		{"no set", `{"a":`, "not a JSON Web Key Set"},
		{"empty set", `{"keys":[]}`, "no key for signatures"},
		{"private key in the set", jwks(jose.JSONWebKey{Key: p384}), "use a public key"},
		{"short secret", jwks(jose.JSONWebKey{Key: []byte("short")}), "at least 32 bytes"},
		{"another algorithm", jwks(jose.JSONWebKey{Key: []byte(hmacSecret), Algorithm: "RS256"}), `alg is "RS256", and the key is for HS256`},
	} {
		if _, err := OpenKeys(write(t, "keys", c.text), SignedOptions{}); err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v, want %q", c.what, err, c.problem)
		}
	}
}

func TestKeysAreRotated(t *testing.T) {
	oldPublic, oldKey, _ := ed25519.GenerateKey(rand.Reader)
	newPublic, newKey, _ := ed25519.GenerateKey(rand.Reader)
	path := write(t, "keys.pem", publicPEM(t, oldPublic))
	c := must[*SignedTokens](t)(OpenKeys(path, SignedOptions{}))
	byOld := issue(t, jose.EdDSA, oldKey, claims{"sub": "a", "exp": in(time.Hour)})
	byNew := issue(t, jose.EdDSA, newKey, claims{"sub": "a", "exp": in(time.Hour)})
	want(t, c, byOld, "jwt:a", nil)
	want(t, c, byNew, "", ErrSignedToken)
	write(t, path, publicPEM(t, oldPublic)+publicPEM(t, newPublic))
	want(t, c, byOld, "jwt:a", nil)
	want(t, c, byNew, "jwt:a", nil)
	write(t, path, publicPEM(t, newPublic))
	want(t, c, byOld, "", ErrSignedToken)
	want(t, c, byNew, "jwt:a", nil)
}

func TestAnyOf(t *testing.T) {
	tokens := must[*Tokens](t)(OpenTokens(write(t, "tokens", "alice alice-has-a-token\n")))
	signed := must[*SignedTokens](t)(OpenSecret(write(t, "secret", hmacSecret), SignedOptions{}))
	both := AnyOf(tokens, signed)
	want(t, both, "alice-has-a-token", "alice", nil)
	want(t, both, issue(t, jose.HS256, []byte(hmacSecret), claims{"sub": "alice", "exp": in(time.Hour)}), "jwt:alice", nil)
	want(t, both, issue(t, jose.HS256, []byte(hmacSecret), claims{"sub": "alice", "exp": in(-time.Hour)}), "", ErrExpired)
	want(t, both, "nonsense", "", ErrSignedToken)
	want(t, AnyOf(tokens), "nonsense", "", ErrToken)
	want(t, AnyOf(), "nonsense", "", ErrToken)

	gone := write(t, "gone", "bob bobs-token-is-long\n")
	unable := AnyOf(must[*Tokens](t)(OpenTokens(gone)), tokens)
	os.Remove(gone)
	want(t, unable, "alice-has-a-token", "alice", nil)
	if _, err := unable.Check("bobs-token-is-long", time.Now()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a token that may be right: %v", err)
	}
}

func TestRoles(t *testing.T) {
	uid := uint32(7)
	path := write(t, "roles", "# people\nuid:7 operator\nalice observes bob jwt:carol\nalice observes dave\n")
	tokens := must[*Tokens](t)(OpenTokens(write(t, "tokens", "alice alice-has-a-token\nbob bob-has-a-token-too\n")))
	signed := must[*SignedTokens](t)(OpenSecret(write(t, "secret", hmacSecret), SignedOptions{}))
	door := Door{Bearer: AnyOf(tokens, signed), UnixUsers: true, Roles: must[*Roles](t)(OpenRoles(path))}
	header := func(token string) Visitor { return Visitor{Header: http.Header{"Authorization": {"Bearer " + token}}} }
	by := func(roles any) Visitor {
		return header(issue(t, jose.HS256, []byte(hmacSecret), claims{"sub": "carol", "exp": in(time.Hour), "troupe": roles}))
	}
	check := func(v Visitor, want Identity) {
		t.Helper()
		if id, err := door.Identify(v, time.Now()); err != nil || !id.Same(want) {
			t.Errorf("%+v, %v, want %+v", id, err, want)
		}
	}
	check(Visitor{UID: &uid}, Identity{Name: "uid:7", Operator: true})
	check(header("alice-has-a-token"), Identity{Name: "alice", Observes: []string{"bob", "jwt:carol", "dave"}})
	check(header("bob-has-a-token-too"), Identity{Name: "bob"})
	check(by(nil), Identity{Name: "jwt:carol"})
	check(by(claims{"operator": true}), Identity{Name: "jwt:carol", Operator: true})
	check(by(claims{"observes": []string{"alice"}}), Identity{Name: "jwt:carol", Observes: []string{"alice"}})
	if id, err := door.Identify(by(claims{"operator": "yes"}), time.Now()); err != ErrSignedToken {
		t.Errorf("a role of the wrong type: %+v, %v", id, err)
	}
	write(t, path, "uid:7 observes alice\n")
	check(Visitor{UID: &uid}, Identity{Name: "uid:7", Observes: []string{"alice"}})
	for _, wrong := range []string{"alice\n", "alice admin\n", "alice observes\n", "alice operator bob\n", "uid:7 observes alice # root\n", "uid:7 operator #\n", "x observes" + strings.Repeat(" y", maxObserved+1) + "\n"} {
		write(t, path, wrong)
		if id, err := door.Identify(Visitor{UID: &uid}, time.Now()); err == nil {
			t.Errorf("%.30q: %+v", wrong, id)
		}
	}
}

func TestDoor(t *testing.T) {
	tokens := must[*Tokens](t)(OpenTokens(write(t, "tokens", "alice alice-has-a-token\n")))
	right, wrong := http.Header{"Authorization": {"Bearer alice-has-a-token"}}, http.Header{"Authorization": {"Bearer wrong"}}
	verified := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "bob"}}}}}
	unverified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "bob"}}}}
	uid := uint32(7)
	all := Door{Bearer: tokens, Certificates: CommonName, UnixUsers: true}
	for _, c := range []struct {
		what string
		door Door
		v    Visitor
		name string
		err  error
	}{
		{"nothing", all, Visitor{}, "", ErrMissing},
		{"token", all, Visitor{Header: right}, "alice", nil},
		{"token and the rest", all, Visitor{Header: right, TLS: verified, UID: &uid}, "alice", nil},
		{"wrong token and the rest", all, Visitor{Header: wrong, TLS: verified, UID: &uid}, "", ErrToken},
		{"malformed header and the rest", all, Visitor{Header: http.Header{"Authorization": {"x"}}, TLS: verified, UID: &uid}, "", ErrHeader},
		{"certificate", all, Visitor{TLS: verified}, "cert:bob", nil},
		{"unverified certificate", all, Visitor{TLS: unverified}, "", ErrMissing},
		{"certificate without the name", Door{Certificates: DNSName}, Visitor{TLS: verified}, "", ErrNoName},
		{"user", all, Visitor{UID: &uid}, "uid:7", nil},
		{"closed to tokens", Door{Certificates: CommonName, UnixUsers: true}, Visitor{Header: right, TLS: verified, UID: &uid}, "", ErrToken},
		{"closed to certificates", Door{Bearer: tokens}, Visitor{TLS: verified}, "", ErrMissing},
		{"closed to users", Door{Bearer: tokens, Certificates: CommonName}, Visitor{UID: &uid}, "", ErrMissing},
		{"closed to all", Door{}, Visitor{Header: right, TLS: verified, UID: &uid}, "", ErrToken},
	} {
		if id, err := c.door.Identify(c.v, time.Now()); id.Name != c.name || err != c.err {
			t.Errorf("%s: %q, %v, want %q, %v", c.what, id.Name, err, c.name, c.err)
		}
	}
}

// A name that cannot be shown to people, or that another name could be taken for, is refused.
func TestNamesOfIdentities(t *testing.T) {
	signed := must[*SignedTokens](t)(OpenSecret(write(t, "secret", hmacSecret), SignedOptions{}))
	door := Door{Bearer: signed, Certificates: CommonName}
	for name, right := range map[string]bool{
		"alice": true, "Ålice Müller": true, "spiffe://a/b?c": true, "uid:0": true, strings.Repeat("x", maxName-len("cert:")): true,
		"a\n": false, "a\x00": false, "a\x1b[2J": false, "a\u202eb": false, "a\u200bb": false, "a\u00a0b": false, "\xff": false, "a\ufffd": false,
		strings.Repeat("x", maxName): false,
	} {
		token := issue(t, jose.HS256, []byte(hmacSecret), claims{"sub": name, "exp": in(time.Hour)})
		for kind, v := range map[string]Visitor{
			"jwt":  {Header: http.Header{"Authorization": {"Bearer " + token}}},
			"cert": {TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: name}}}}}},
		} {
			id, err := door.Identify(v, time.Now())
			if right && (err != nil || id.Name != kind+":"+name) || !right && err != ErrBadName {
				t.Errorf("%s of %.20q: %.20q, %v", kind, name, id.Name, err)
			}
		}
	}
}

// The token of a share counts before all other credentials, and no file can give its guest a role.
func TestDoorForGuests(t *testing.T) {
	tokens := must[*Tokens](t)(OpenTokens(write(t, "tokens", "alice alice-has-a-token\n")))
	roles := must[*Roles](t)(OpenRoles(write(t, "roles", "share:1 operator\nshare:1 observes alice\n")))
	guest := Identity{Name: "share:1", Guest: &identity.Guest{Session: "s", Types: true}}
	now := time.Now()
	verified := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "bob"}}}}}
	uid := uint32(7)
	for name, more := range map[string]Door{
		"tokens": {Bearer: tokens}, "certificates": {Certificates: CommonName}, "users": {UnixUsers: true}, "all": {Bearer: tokens, Certificates: CommonName, UnixUsers: true},
	} {
		token, digest := new(share.Book).NewToken()
		door := more
		door.Shares, door.Roles = share.NewBook(time.Hour), roles
		visitor := Visitor{Header: http.Header{"Authorization": {"Bearer " + token}}, TLS: verified, UID: &uid}
		refused := func(when string, door Door, at time.Time) {
			t.Helper()
			if id, err := door.Identify(visitor, at); err != ErrToken {
				t.Errorf("%s, %s: %+v, %v", name, when, id, err)
			}
		}
		refused("before", door, now)
		door.Shares.Add(digest, guest, now.Add(time.Minute))
		if id, err := door.Identify(visitor, now); err != nil || !id.Same(guest) || id.Guest != guest.Guest || id.Operator {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
		refused("in a server without shares", more, now)
		refused("expired", door, now.Add(time.Minute))
		door.Shares.Remove(digest)
		refused("revoked", door, now)
	}
}
