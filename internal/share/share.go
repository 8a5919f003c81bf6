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
	"github.com/b6f6fdd7/troupe/internal/nodeid"
)

// prefix begins every token, so that people, scanners for secrets and Redact recognize a token.
const prefix = "troupe_share_"

// IsToken reports whether a bearer token has the form of a token of this package.
func IsToken(token string) bool { return strings.HasPrefix(token, prefix) }

var tokens = regexp.MustCompile(prefix + `[0-9A-Za-z._-]+`)

// Redact returns text without the tokens in it.
func Redact(text []byte) []byte {
	if !bytes.Contains(text, []byte(prefix)) {
		return text
	}
	return tokens.ReplaceAllLiteral(text, []byte(prefix+"…"))
}

// A Digest is the SHA-256 of a token. The server keeps no token.
type Digest [sha256.Size]byte

// NewToken returns a token of 260 random bits for sessions of the book, and its digest. In a cluster, the token names the node.
func (b *Book) NewToken() (string, Digest) {
	token := prefix
	if b.Node != "" {
		token += b.Node + "."
	}
	token += rand.Text() + rand.Text()
	return token, sha256.Sum256([]byte(token))
}

// A Book has the guests of all sessions by the digests of their tokens. Each session adds its shares, and
// removes them when they end. So a Book has as many entries as all sessions have shares. Any goroutine may
// use a Book. A nil Book is empty.
type Book struct {
	// Longest is how long a share may last. Fixed.
	Longest time.Duration
	// Node is the id of this server in a cluster, and Elsewhere reports whether a node has an id. Set before the book is used; "" and nil: there is no cluster.
	Node      string
	Elsewhere func(node string) bool

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

// Guest returns who has a token; ok is false if the token is not valid. Who has a token of another node may have any: Guest.Token of the
// identity is set, and that node has to Check it.
func (b *Book) Guest(token string, now time.Time) (guest identity.Identity, ok bool) {
	if guest, ok = b.Check(token, now); ok || b == nil || b.Elsewhere == nil {
		return guest, ok
	}
	if node := nodeid.Of(strings.TrimPrefix(token, prefix)); node != b.Node && b.Elsewhere(node) {
		return identity.Identity{Name: "share:of another node", Guest: &identity.Guest{Session: node + ".", Token: token}}, true
	}
	return guest, false
}

// Check is Guest for tokens of this book. The time that Check takes tells something about the digest of the token at most, and nothing about other tokens.
func (b *Book) Check(token string, now time.Time) (guest identity.Identity, ok bool) {
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
