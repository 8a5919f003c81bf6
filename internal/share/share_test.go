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
	token, digest := b.NewToken()
	other, otherDigest := b.NewToken()
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
	token, _ := new(Book).NewToken()
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

// A token of another node of a cluster is that node's to check, and a book takes no other node's token for its own.
func TestTokensOfOtherNodes(t *testing.T) {
	now := time.Now()
	a, b := NewBook(time.Hour), NewBook(time.Hour)
	a.Node, b.Node = "a-1", "b-1"
	b.Elsewhere = func(node string) bool { return node == "a-1" || node == "b-1" }
	token, digest := a.NewToken()
	a.Add(digest, identity.Identity{Name: "share:1", Guest: &identity.Guest{Session: "a-1.x"}}, now.Add(time.Hour))
	if got, ok := b.Guest(token, now); !ok || got.Guest.Token != token || got.Guest.Session != "a-1." {
		t.Errorf("at the other node: %+v, %v", got, ok)
	}
	if got, ok := a.Guest(token, now); !ok || got.Guest.Token != "" || got.Guest.Session != "a-1.x" {
		t.Errorf("at its node: %+v, %v", got, ok)
	}
	if _, ok := b.Check(token, now); ok {
		t.Error("another node has checked the token")
	}
	for _, wrong := range []string{prefix + "c-1.ABC", prefix + "b-1.ABC", prefix + "ABC"} {
		if _, ok := b.Guest(wrong, now); ok {
			t.Errorf("%s is let in", wrong)
		}
	}
	if text := string(Redact([]byte("token " + token + " end"))); strings.Contains(text, token[len(prefix):]) {
		t.Errorf("redacted: %s", text)
	}
}
