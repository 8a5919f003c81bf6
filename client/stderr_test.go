package client

import (
	"bytes"
	"errors"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// The error of Output has the last part of stderr, unless the caller takes stderr.
func TestStderrOfOutput(t *testing.T) {
	var all []byte
	c := connect(t, newFake(map[string]func(*fakeProcess){"fails": func(p *fakeProcess) {
		p.print(protocol.Stdout, "out")
		all = nil
		for i := range 30 {
			part := bytes.Repeat([]byte{byte('a' + i%26)}, 5000)
			p.print(protocol.Stderr, string(part))
			all = append(all, part...)
		}
		p.exitCode = 2
	}}), nil)
	var exit *ExitError
	out, err := c.Command("fails").Output(t.Context())
	if string(out) != "out" || !errors.As(err, &exit) || !bytes.Equal(exit.Stderr, all[len(all)-maxTail:]) {
		t.Errorf("%q, %v, with %d bytes of stderr", out, err, len(exit.Stderr))
	}
	var own bytes.Buffer
	cmd := c.Command("fails")
	cmd.Stderr = &own
	if _, err := cmd.Output(t.Context()); !errors.As(err, &exit) || exit.Stderr != nil || !bytes.Equal(own.Bytes(), all) {
		t.Errorf("%v, with %d bytes of stderr; the caller has %d", err, len(exit.Stderr), own.Len())
	}
}
