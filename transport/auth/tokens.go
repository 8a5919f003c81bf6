package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// A digest is the SHA-256 of a token. Comparing digests in constant time tells nothing about a token,
// not even its length.
type digest [sha256.Size]byte

// A namedToken is a line of a token file.
type namedToken struct {
	name   string
	digest digest
}

// Tokens is a Checker of the bearer tokens in a file. A line has a name and a token, or a name and
// "sha256:" with the SHA-256 of a token in 64 hexadecimal digits:
//
//	# Lines with # and empty lines are skipped.
//	alice  5b1Zq0…
//	ci     sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// A name may have several lines: while a token is rotated, the old one and the new one are both right. A token stands under
// one name only, and no name is * or @server, which have a meaning in other files. Each check sees the file as the file is then.
type Tokens struct{ file *secret[[]namedToken] }

// OpenTokens returns the tokens in the file at path. A file without tokens, or with a line of another
// form, is an error.
func OpenTokens(path string) (*Tokens, error) {
	f, err := openSecret(path, parseTokens)
	return &Tokens{f}, err
}

// minToken is the length of the shortest token, in bytes. Shorter tokens can be guessed.
const minToken = 16

func parseTokens(data []byte) (all []namedToken, err error) {
	owners := make(map[digest]string)
	err = linefile.Parse(data, func(fields []string) error {
		// No error below shows a part of the line: the line may be a token without a name.
		if len(fields) != 2 {
			return fmt.Errorf("it has %d words: write a name and a token", len(fields))
		}
		if strings.Contains(fields[0], ":") {
			return errors.New("the name has a colon")
		}
		if fields[0] == "*" || fields[0] == identity.ServerUser {
			return fmt.Errorf("the name %s has a meaning of its own in the files of users and policies: choose another", fields[0])
		}
		t := namedToken{name: fields[0]}
		if hash, hashed := strings.CutPrefix(fields[1], "sha256:"); hashed {
			d, err := parseDigest(hash)
			if err != nil {
				return fmt.Errorf("after sha256: %w", err)
			}
			t.digest = d
		} else {
			if len(fields[1]) < minToken || len(fields[1]) > MaxToken {
				return fmt.Errorf("the token has %d bytes, want %d to %d", len(fields[1]), minToken, MaxToken)
			}
			t.digest = sha256.Sum256([]byte(fields[1]))
		}
		if owner, again := owners[t.digest]; again && owner != t.name {
			return fmt.Errorf("%s has the token of %s: a token says who its client is, so give each name a token of its own", t.name, owner)
		}
		owners[t.digest] = t.name
		all = append(all, t)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the file has no token: add a line with a name and a token")
	}
	return all, err
}

func parseDigest(text string) (d digest, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(d) {
		return d, errors.New("want 64 hexadecimal digits")
	}
	return digest(raw), nil
}

// Check implements Checker.
func (t *Tokens) Check(token string, _ time.Time) (Identity, error) {
	all, err := t.file.get()
	if err != nil {
		return Identity{}, err
	}
	return match(all, token)
}

// Edition implements Editions.
func (t *Tokens) Edition() uint64 { return t.file.Edition() }

// match compares a token with all tokens, in the same time whichever is equal.
func match(all []namedToken, token string) (id Identity, err error) {
	got := sha256.Sum256([]byte(token))
	found := -1
	for i, t := range all {
		if subtle.ConstantTimeCompare(t.digest[:], got[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return id, ErrToken
	}
	return Identity{Name: all[found].name}, nil
}

// singleName is the name of a token of exec-server: its file or flag has no name.
const singleName = "token"

// OpenSingleToken returns the token in the file at path, without blanks around it, under the name "token". An
// empty file is an error. (exec-server wire §1: --ws-token-file.)
func OpenSingleToken(path string) (*Tokens, error) {
	f, err := openSecret(path, func(data []byte) ([]namedToken, error) {
		token := bytes.TrimSpace(data)
		if len(token) == 0 {
			return nil, errors.New("must not be empty")
		}
		return []namedToken{{singleName, sha256.Sum256(token)}}, nil
	})
	return &Tokens{f}, err
}

// TokenDigest is a Checker of one bearer token by its SHA-256, of the name "token".
type TokenDigest struct{ digest digest }

// ParseTokenDigest returns the TokenDigest of 64 hexadecimal digits. (exec-server wire §1:
// --ws-token-sha256.)
func ParseTokenDigest(text string) (*TokenDigest, error) {
	d, err := parseDigest(strings.TrimSpace(text))
	return &TokenDigest{d}, err
}

// Check implements Checker.
func (t *TokenDigest) Check(token string, _ time.Time) (Identity, error) {
	return match([]namedToken{{singleName, t.digest}}, token)
}
