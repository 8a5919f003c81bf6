package launch

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The server, which is not confined, does not look where the program may not.
func TestLooksOutsideTheSandboxAreRefused(t *testing.T) {
	hides := protocol.ReadOnlySandbox("/w")
	hides.Entries = append(hides.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath, Path: "/secret", Access: protocol.SandboxDeny})
	hides.Network = true
	network := protocol.ReadOnlySandbox("/w")
	network.Network = true
	command, http := &protocol.Probe{Argv: []string{"true"}}, &protocol.Probe{HTTP: "http://127.0.0.1:1/"}
	for _, test := range []struct {
		params  protocol.ProcessStartParams
		refused string // of hides, of network, and of a sandbox without network: the member, or -
	}{
		{protocol.ProcessStartParams{Ready: &protocol.Ready{TCP: "127.0.0.1:1"}}, "- - ready.tcp"},
		{protocol.ProcessStartParams{Ready: &protocol.Ready{Unix: "file:///w/s"}}, "ready.unix - ready.unix"},
		{protocol.ProcessStartParams{Ready: &protocol.Ready{File: "file:///w/f"}}, "ready.file - -"},
		{protocol.ProcessStartParams{Ready: &protocol.Ready{Probe: http}}, "- - ready.probe.http"},
		{protocol.ProcessStartParams{Ready: &protocol.Ready{Probe: command}}, "- - -"},
		{protocol.ProcessStartParams{Ready: &protocol.Ready{Line: "x"}}, "- - -"},
		{protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: http}}, "- - liveness.probe.http"},
		{protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: command, SilenceMs: 1}}, "- - -"},
	} {
		var got []string
		for _, s := range []*protocol.Sandbox{hides, network, protocol.ReadOnlySandbox("/w")} {
			test.params.Sandbox = s.JSON()
			spec := child.Spec{Dir: "/w"}
			err := confine(&spec, &test.params)
			member := "-"
			if err != nil {
				member, _, _ = strings.Cut(err.Message, ":")
			}
			got = append(got, member)
		}
		if text := strings.Join(got, " "); text != test.refused {
			t.Errorf("%+v %+v: refused %s, want %s", test.params.Ready, test.params.Liveness, text, test.refused)
		}
	}
}

// A client that names no sandbox may get one of the operator, and then the server looks nowhere that the program may not.
func TestLooksAtSandboxOfOperator(t *testing.T) {
	for _, test := range []struct {
		params  protocol.ProcessStartParams
		refused bool
	}{
		{protocol.ProcessStartParams{Ready: &protocol.Ready{TCP: "127.0.0.1:1"}}, true},
		{protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: &protocol.Probe{HTTP: "http://127.0.0.1:1"}}}, true},
		{protocol.ProcessStartParams{Ready: &protocol.Ready{File: "/w/f"}}, false},
		{protocol.ProcessStartParams{}, false},
	} {
		var spec child.Spec
		if err := confine(&spec, &test.params); err != nil || spec.Sandbox != nil || spec.Looks == nil {
			t.Fatalf("%+v: %+v, %v", test.params, spec.Sandbox, err)
		}
		if err := spec.Looks(protocol.ReadOnlySandbox("/w")); (err != nil) != test.refused {
			t.Errorf("%+v: %v", test.params, err)
		}
	}
}
