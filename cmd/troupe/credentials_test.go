package main

import (
	"flag"
	"io"
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
