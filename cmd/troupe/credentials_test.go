//go:build unix

package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A clock skew is a whole number of seconds. A number with a unit is an error, not its first digits.
func TestClockSkew(t *testing.T) {
	for text, right := range map[string]bool{"0": true, "600": true, "30s": false, "1.5": false, "-1": false, "0x10": false, "": false, "9999999999": false} {
		if err := newServe().ParseFlags([]string{"--ws-max-clock-skew-seconds", text}); (err == nil) != right {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Tokens without TLS are for loopback addresses and unix sockets. At other addresses the server warns.
func TestClearTokens(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("alice token-of-alice-in-plain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for listen, warns := range map[string]bool{
		"ws://192.0.2.1:7766": true, "ws://0.0.0.0:0": true, "ws://[::]:0": true, "ws://[2001:db8::1]:7766": true,
		"ws://127.0.0.1:0": false, "ws://127.9.9.9:0": false, "ws://[::1]:0": false, "unix:///tmp/socket": false,
	} {
		var log bytes.Buffer
		c := credentialFlags{tokens: tokens}
		if _, _, err := c.open(listen, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
		if strings.Contains(log.String(), "can read tokens") != warns {
			t.Errorf("%s: the log has %q, want a warning: %v", listen, &log, warns)
		}
	}
}

// The server warns of files that other users can read or change, and takes them.
func TestFilesOfOthers(t *testing.T) {
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const tokens, roles, secret = "alice token-of-alice-in-plain\n", "alice operator\n", "0123456789abcdef0123456789abcdef"
	for mode, want := range map[os.FileMode]string{
		0o600: "", 0o640: "", 0o660: "", 0o400: "",
		0o644: "tokens secret ", 0o604: "tokens secret ", 0o666: "tokens secret roles ", 0o602: "tokens secret roles ",
	} {
		var log bytes.Buffer
		c := credentialFlags{tokens: file("tokens", tokens, mode), jwtSecret: file("secret", secret, mode), roles: file("roles", roles, mode)}
		if _, _, err := c.open("unix:///tmp/socket", slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Errorf("%o: %v", mode, err)
		}
		got := ""
		for line := range strings.Lines(log.String()) {
			got += filepath.Base(strings.TrimSpace(line)) + " "
		}
		if got != want {
			t.Errorf("%o: warnings about %q, want %q: %s", mode, got, want, &log)
		}
	}
}

// No flag takes a secret itself, because ps shows flags: such a flag names a file, or a digest.
func TestNoFlagTakesASecret(t *testing.T) {
	secret := regexp.MustCompile(`(?i)token|secret|password|key|credential|auth`)
	placeholder := regexp.MustCompile("`(.*)`")
	n := 0
	for _, f := range flagsOf(newServe()) {
		if !secret.MatchString(f.Name) {
			continue
		}
		n++
		takes := placeholder.FindStringSubmatch(f.Usage)
		switch {
		case takes == nil && f.DefValue == "false": // a bool
		case takes == nil && f.Name == "auth-jwt-skew":
		case takes == nil:
			t.Errorf("--%s does not say what it takes", f.Name)
		case !slices.Contains([]string{"FILE", "PATH", "HEX", "MODE", "issuer", "audience"}, takes[1]):
			t.Errorf("--%s takes %s", f.Name, takes[1])
		}
	}
	if n < 10 {
		t.Errorf("only %d flags are about secrets", n)
	}
}
