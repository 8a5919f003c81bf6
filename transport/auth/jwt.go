package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// SignedTokens is a Checker of signed tokens (JWT, RFC 7519). A token names its client in the claim sub,
// and must have the claim exp. The claim troupe may have the roles of the client, as in
// {"operator":true,"observes":["alice"]}.
type SignedTokens struct {
	file *secret[[]signingKey]
	SignedOptions
}

// SignedOptions say which signed tokens are right. They are useful at zero.
type SignedOptions struct {
	Issuer   string        // the claim iss; "": any
	Audience string        // one of the claim aud; "": any
	Skew     time.Duration // how far the clocks of the issuer and the server may differ; 0: none

	// Nameless accepts tokens without the claim sub, as exec-server does. All their owners are one client.
	Nameless bool
}

// A signingKey is a key with its only algorithm. The algorithm in the header of a token must be equal,
// and chooses nothing: a token cannot make a public key the secret of an HMAC.
type signingKey struct {
	id  string // kid; "": none
	alg jose.SignatureAlgorithm
	key any
}

// MinSecret is the length of the shortest secret for HS256, in bytes. (RFC 7518 §3.2.)
const MinSecret = 32

// OpenSecret returns a Checker of tokens signed with HS256. The file at path has the secret, and blanks
// around the secret do not belong to it. (exec-server wire §1: --ws-shared-secret-file.)
func OpenSecret(path string, o SignedOptions) (*SignedTokens, error) {
	f, err := openSecret(path, func(data []byte) ([]signingKey, error) {
		secret := bytes.TrimSpace(data)
		if len(secret) < MinSecret {
			return nil, ErrShortSecret
		}
		return []signingKey{{alg: jose.HS256, key: secret}}, nil
	})
	return &SignedTokens{f, o}, err
}

// ErrShortSecret means that a secret has fewer than MinSecret bytes.
var ErrShortSecret = fmt.Errorf("must be at least %d bytes", MinSecret)

// OpenKeys returns a Checker of tokens signed with a key of the file at path. The file is a JSON Web Key
// Set (RFC 7517) or has public keys in PEM. The algorithm of a key is RS256 for RSA of 2048 bits or more, ES256 for P-256, EdDSA for
// Ed25519, and HS256 for a symmetric key of a key set. A key of another kind is an error.
func OpenKeys(path string, o SignedOptions) (*SignedTokens, error) {
	f, err := openSecret(path, parseKeys)
	return &SignedTokens{f, o}, err
}

func parseKeys(data []byte) ([]signingKey, error) {
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("{")) {
		return parseKeySet(data)
	}
	var all []signingKey
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("the PEM block %q is not a PUBLIC KEY", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		alg, err := algorithmOf(key)
		if err != nil {
			return nil, err
		}
		all = append(all, signingKey{alg: alg, key: key})
	}
	if len(all) == 0 {
		return nil, errors.New("there is neither a JSON Web Key Set nor a PUBLIC KEY in PEM")
	}
	return all, nil
}

func parseKeySet(data []byte) (all []signingKey, err error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	for i, k := range set.Keys {
		if k.Use == "enc" {
			continue
		}
		alg, err := algorithmOf(k.Key)
		if err == nil && k.Algorithm != "" && k.Algorithm != string(alg) {
			err = fmt.Errorf("alg is %q, and the key is for %s", k.Algorithm, alg)
		}
		if err != nil {
			return nil, fmt.Errorf("key %d of the set: %w", i, err)
		}
		all = append(all, signingKey{k.KeyID, alg, k.Key})
	}
	if len(all) == 0 {
		return nil, errors.New("the key set has no key for signatures")
	}
	return all, nil
}

// algorithmOf returns the algorithm of a key.
func algorithmOf(key any) (jose.SignatureAlgorithm, error) {
	const minRSA = 2048 // bits; RFC 7518 §3.3
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return "", fmt.Errorf("an RSA key has %d bits; use one of at least %d", k.N.BitLen(), minRSA)
		}
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return "", fmt.Errorf("a key is on the curve %s, want P-256", k.Curve.Params().Name)
		}
		return jose.ES256, nil
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	case []byte:
		if len(k) < MinSecret {
			return "", ErrShortSecret
		}
		return jose.HS256, nil
	}
	return "", fmt.Errorf("a key is a %T; use a public key (RSA, P-256 or Ed25519) or a symmetric key", key)
}

// Check implements Checker.
func (s *SignedTokens) Check(token string, now time.Time) (Identity, error) {
	keys, err := s.file.get()
	if err != nil {
		return Identity{}, err
	}
	claims, ok := verify(keys, token)
	if !ok || claims.Expiry == nil || claims.Subject == "" && !s.Nameless {
		return Identity{}, ErrSignedToken
	}
	want := jwt.Expected{Issuer: s.Issuer, Time: now}
	if s.Audience != "" {
		want.AnyAudience = jwt.Audience{s.Audience}
	}
	switch err := claims.ValidateWithLeeway(want, s.Skew); {
	case errors.Is(err, jwt.ErrExpired):
		return Identity{}, ErrExpired
	case errors.Is(err, jwt.ErrNotValidYet):
		return Identity{}, ErrNotYet
	case err != nil:
		return Identity{}, ErrSignedToken
	}
	if len(claims.Troupe.Observes) > maxObserved {
		return Identity{}, ErrSignedToken
	}
	return Identity{
		Name:     "jwt:" + claims.Subject,
		Operator: claims.Troupe.Operator,
		Observes: claims.Troupe.Observes,
		Until:    claims.Expiry.Time().Add(s.Skew),
	}, nil
}

// Edition implements Editions.
func (s *SignedTokens) Edition() uint64 { return s.file.Edition() }

// tokenClaims are the claims of a signed token.
type tokenClaims struct {
	jwt.Claims
	Troupe struct {
		Operator bool     `json:"operator"`
		Observes []string `json:"observes"`
	} `json:"troupe"`
}

// verify returns the claims of a token signed with one of keys. A token with a kid is compared only with
// keys of this kid and keys without one.
func verify(keys []signingKey, token string) (claims tokenClaims, ok bool) {
	for _, k := range keys {
		t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{k.alg})
		if err != nil || len(t.Headers) != 1 {
			continue
		}
		if kid := t.Headers[0].KeyID; kid != "" && k.id != "" && kid != k.id {
			continue
		}
		claims = tokenClaims{}
		if t.Claims(k.key, &claims) == nil {
			return claims, true
		}
	}
	return tokenClaims{}, false
}
