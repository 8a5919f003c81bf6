// Package auth finds out who a client is from the credential that the client shows. Any goroutine may
// call the functions and methods of this package.
package auth

import (
	"net/http"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
)

// Identity is who a client is, and whose sessions the client may reach.
type Identity = identity.Identity

// A Refusal is the reason why a credential is refused. Texts are those of exec-server wire §1. A Refusal
// never contains a part of a credential.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// The refusals of this package.
var (
	ErrMissing      = &Refusal{"missing websocket bearer token"}
	ErrHeader       = &Refusal{"invalid authorization header"}
	ErrToken        = &Refusal{"invalid websocket bearer token"}
	ErrSignedToken  = &Refusal{"invalid websocket jwt"}
	ErrExpired      = &Refusal{"expired websocket jwt"}
	ErrNotYet       = &Refusal{"websocket jwt is not valid yet"}
	errsAboutTokens = []*Refusal{ErrExpired, ErrNotYet, ErrSignedToken, ErrToken} // the most telling first
)

// MaxToken is the length of the longest bearer token that is looked at, in bytes.
const MaxToken = 8 << 10

// A Checker checks bearer tokens. If the token is refused, the error is a *Refusal. Any other error means
// that the server cannot tell at present: for example, it cannot read its keys.
type Checker interface {
	Check(token string, now time.Time) (Identity, error)
}

// Editions is implemented by each Checker whose answers change with a file.
type Editions interface {
	// Edition returns another number after each change of the file.
	Edition() uint64
}

// FromHeader returns the bearer token of a request. RFC 6750 §2.1: the scheme is matched in any case.
// FromHeader never looks at the URL: proxies and browsers keep URLs.
func FromHeader(h http.Header) (string, error) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", ErrMissing
	case 1:
	default:
		return "", ErrHeader
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", ErrHeader
	}
	return trimmed(token)
}

// Bearer returns the header of a request with a bearer token.
func Bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// trimmed returns a token without blanks around it. A token of no bytes, or of more than MaxToken, is ErrHeader.
func trimmed(token string) (string, error) {
	token = strings.TrimSpace(token)
	if token == "" || len(token) > MaxToken {
		return "", ErrHeader
	}
	return token, nil
}

// AnyOf returns a Checker that accepts a token if one of all accepts it. If all refuse, the refusal is
// the most telling of theirs. An empty list refuses every token.
func AnyOf(all ...Checker) Checker { return anyOf(all) }

type anyOf []Checker

// Edition implements Editions.
func (all anyOf) Edition() (sum uint64) {
	for _, c := range all {
		if e, ok := c.(Editions); ok {
			sum += e.Edition() // each only grows
		}
	}
	return sum
}

func (all anyOf) Check(token string, now time.Time) (Identity, error) {
	refused := ErrToken
	var unable error
	rank := len(errsAboutTokens)
	for _, c := range all {
		id, err := c.Check(token, now)
		if err == nil {
			return id, nil
		}
		r, ok := err.(*Refusal)
		if !ok {
			unable = err
			continue
		}
		for i, known := range errsAboutTokens[:rank] {
			if r == known {
				refused, rank = r, i
				break
			}
		}
	}
	if unable != nil {
		return Identity{}, unable // the token may be right
	}
	return Identity{}, refused
}
