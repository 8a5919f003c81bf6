package share

import (
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
)

func TestBook(t *testing.T) {
	b, now := NewBook(time.Hour), time.Now()
	guest := identity.Identity{Name: "share:1", Guest: &identity.Guest{Session: "s"}}
	token, digest := NewToken()
	other, otherDigest := NewToken()
	if !IsToken(token) || token == other || digest == otherDigest || len(token) != len(prefix)+52 {
		t.Fatalf("%s, %s", token, other)
	}
	check := func(what, token string, at time.Time, want bool) {
		t.Helper()
		if got, ok := b.Guest(token, at); ok != want || ok && got.Guest != guest.Guest {
			t.Errorf("%s: %+v, %v, want %v", what, got, ok, want)
		}
	}
	check("before", token, now, false)
	b.Add(digest, guest, now.Add(time.Second))
	check("valid", token, now, true)
	check("the last moment", token, now.Add(time.Second-1), true)
	check("expired", token, now.Add(time.Second), false)
	check("another token", other, now, false)
	check("a longer token", token+"A", now, false)
	check("a part of the token", token[:len(token)-1], now, false)
	check("the digest", string(digest[:]), now, false)
	b.Remove(otherDigest)
	check("another was removed", token, now, true)
	b.Remove(digest)
	check("removed", token, now, false)
	if b.Len() != 0 {
		t.Errorf("%d are left", b.Len())
	}
	if _, ok := (*Book)(nil).Guest(token, now); ok {
		t.Error("no book has a guest")
	}
}

func TestRedact(t *testing.T) {
	token, _ := NewToken()
	for text, want := range map[string]string{
		"":                          "",
		"nothing":                   "nothing",
		`["a","` + token + `","b"]`: `["a","troupe_share_…","b"]`,
		"TOKEN=" + token + " " + token[:20] + "…": "TOKEN=troupe_share_… troupe_share_……",
		prefix: prefix,
	} {
		got := string(Redact([]byte(text)))
		if got != want || strings.Contains(got, token[len(prefix):len(prefix)+7]) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
