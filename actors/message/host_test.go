package message

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A request that no actor hears is answered by what is known of its receiver.
func TestUnheardRequests(t *testing.T) {
	about := Request{Token: 1, Params: protocol.ProcessReadParams{ProcessID: "web"}}
	for _, test := range []struct {
		m    Answerable
		to   string
		want string // "": no answer
	}{
		{about, "troupe/sessions/s/p-1", "unknown process id web"},
		{Request{Params: DescribeRequest{}}, "troupe/sessions/s/p-1", "unknown process id "},
		{about, "troupe/sessions/s/session", "session s has ended"},
		{about, "troupe/connections/c-1/command-1", ""},
		{about, "troupe/registry", "the server is shutting down and opens no session"},
		{Attach{SessionID: "s"}, "troupe", "unknown session id s"},
		{Attach{}, "troupe", "the server is shutting down and opens no session"},
		{ListSessions{}, "troupe/sessions", ""},
	} {
		answer := test.m.Unheard(actor.NewPID("here", test.to))
		got := ""
		if r, ok := answer.(Reply); ok && r.Err != nil {
			got = r.Err.Message
		} else if answer != nil {
			t.Errorf("%T to %s: answered with %+v", test.m, test.to, answer)
		}
		if got != test.want {
			t.Errorf("%T to %s: %q, want %q", test.m, test.to, got, test.want)
		}
	}
}
