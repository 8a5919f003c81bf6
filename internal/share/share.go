// Package share has the tokens with which owners of sessions let guests in. Whoever has such a token
// reaches one session, and nothing else.
package share

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
)

// prefix begins every token, so that people, scanners for secrets and Redact recognize a token.
const prefix = "troupe_share_"

// IsToken reports whether a bearer token has the form of a token of this package.
func IsToken(token string) bool { return strings.HasPrefix(token, prefix) }

var tokens = regexp.MustCompile(prefix + `[0-9A-Za-z_-]+`)

// Redact returns text without the tokens in it.
func Redact(text []byte) []byte {
	if !bytes.Contains(text, []byte(prefix)) {
		return text
	}
	return tokens.ReplaceAllLiteral(text, []byte(prefix+"…"))
}

// A Digest is the SHA-256 of a token. The server keeps no token.
type Digest [sha256.Size]byte

// NewToken returns a token of 260 random bits, and its digest.
func NewToken() (string, Digest) {
	token := prefix + rand.Text() + rand.Text()
	return token, sha256.Sum256([]byte(token))
}

// A Book has the guests of all sessions by the digests of their tokens. Each session adds its shares, and
// removes them when they end. So a Book has as many entries as all sessions have shares. Any goroutine may
// use a Book. A nil Book is empty.
type Book struct {
	// Longest is how long a share may last. Fixed.
	Longest time.Duration

	mu     sync.Mutex
	guests map[Digest]entry
}

type entry struct {
	guest identity.Identity
	until time.Time
}

// NewBook returns an empty Book.
func NewBook(longest time.Duration) *Book {
	return &Book{Longest: longest, guests: make(map[Digest]entry)}
}

// Add makes a token valid until a time.
func (b *Book) Add(d Digest, guest identity.Identity, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.guests[d] = entry{guest, until}
}

// Remove makes a token invalid.
func (b *Book) Remove(d Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.guests, d)
}

// Guest returns who has a token; ok is false if the token is not valid. The time that Guest takes tells
// something about the digest of the token at most, and nothing about other tokens.
func (b *Book) Guest(token string, now time.Time) (guest identity.Identity, ok bool) {
	if b == nil {
		return guest, false
	}
	d := sha256.Sum256([]byte(token))
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.guests[d]
	if !ok || !now.Before(e.until) {
		return guest, false
	}
	return e.guest, true
}

// Len returns the number of tokens.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.guests)
}
