package main

import (
	"bytes"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A clock skew is a whole number of seconds. A number with a unit is an error, not its first digits.
func TestClockSkew(t *testing.T) {
	for text, right := range map[string]bool{"0": true, "600": true, "30s": false, "1.5": false, "-1": false, "0x10": false, "": false, "9999999999": false} {
		var c credentialFlags
		f := flag.NewFlagSet("serve", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		c.register(f)
		if err := f.Parse([]string{"--ws-max-clock-skew-seconds", text}); (err == nil) != right {
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
