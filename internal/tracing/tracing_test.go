package tracing

import (
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestVariables(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		trace *protocol.TraceContext
		want  []string
	}{
		{nil, nil},
		{&protocol.TraceContext{Parent: parent}, []string{"TRACEPARENT=" + parent}},
		{&protocol.TraceContext{Parent: parent, State: "a=b,c=d"}, []string{"TRACEPARENT=" + parent, "TRACESTATE=a=b,c=d"}},
		{&protocol.TraceContext{Parent: parent, State: "no state"}, []string{"TRACEPARENT=" + parent}},
		{&protocol.TraceContext{Parent: "00-0-0-01"}, nil},
		{&protocol.TraceContext{Parent: "x\nLD_PRELOAD=y"}, nil},
		{&protocol.TraceContext{State: "a=b"}, nil},
	} {
		if got := Variables(Under(c.trace)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.trace, got, c.want)
		}
	}
}
