// Package tracing joins the trace contexts of the wire with OpenTelemetry, whose W3C form both have. Without a tracer, nothing is measured.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Under returns a context in which spans begin below t. A nil or wrong t: spans begin traces of their own.
func Under(t *protocol.TraceContext) context.Context {
	ctx := context.Background()
	if t == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": t.Parent, "tracestate": t.State})
}

// Variables returns the environment variables for a program whose place in a trace ctx has; nil: it has none.
func Variables(ctx context.Context) (all []string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	all = append(all, "TRACEPARENT="+carrier["traceparent"])
	if state := carrier["tracestate"]; state != "" {
		all = append(all, "TRACESTATE="+state)
	}
	return all
}
