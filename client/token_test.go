package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TokenFromEnv has the token of TROUPE_TOKEN, or else of the file that TROUPE_TOKEN_FILE names. Blanks around a token are no part of it. A token that no HTTP header can
// have is refused, and no error shows a token.
func TestTokenFromEnv(t *testing.T) {
	const right = "token-of-alice-in-plain"
	dir := t.TempDir()
	for _, c := range []struct {
		token, file string // the variable, and the name of the file; "": not set
		text        string // of the file; "": there is no file
		want        string // the token
		refusal     string // DIR stands for dir
	}{
		{"", "", "", "", ""},
		{right, "", "", right, ""},
		{right + "\r\n", "", "", right, ""},
		{right, "a", "another", right, ""}, // the variable counts first
		{" ", "a", right, right, ""},
		{"", "a", right, right, ""},
		{"", "a", right + "\n", right, ""},
		{"", "a", "\r\n" + right + "\r\n", right, ""},
		{"", "a", right + " " + right, right + " " + right, ""},
		{"", "a", "tökén", "tökén", ""},
		{"", "a", "\n", "", "TROUPE_TOKEN_FILE: DIR/a is empty"},
		{"", "a", " \n", "", "TROUPE_TOKEN_FILE: DIR/a is empty"},
		{"", "missing", "", "", "TROUPE_TOKEN_FILE: open DIR/missing: no such file or directory"},
		{"", ".", "", "", "TROUPE_TOKEN_FILE: read DIR: is a directory"},
		{"", "a", right + "\x00", "", `the control character '\x00' after 23 bytes`},
		{"", "a", right + "\n" + right + "\n", "", `the control character '\n' after 23 bytes`},
	} {
		path := ""
		if c.file != "" {
			path = filepath.Join(dir, c.file)
		}
		if c.text != "" {
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("TROUPE_TOKEN", c.token)
		t.Setenv("TROUPE_TOKEN_FILE", path)
		got, err := (&Options{Token: TokenFromEnv}).credential("ws://127.0.0.1:1")
		refusal := strings.ReplaceAll(c.refusal, "DIR", dir)
		if got != c.want || (err == nil) != (refusal == "") || err != nil && (!strings.Contains(err.Error(), refusal) || strings.Contains(err.Error(), "alice")) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
