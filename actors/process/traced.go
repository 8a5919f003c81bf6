package process

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/internal/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traced has the spans of the start of a run: "start" ends when the program runs. Below it, "queue" is the time for a turn, for the look-up of program and user and
// for a thread, "fork" is the fork, and "first output" begins with the program.
type traced struct {
	ctx   context.Context // has start
	start trace.Span      // nil once the program runs
	asked time.Time
	forks *atomic.Int64 // when the fork began, in nanoseconds since the Unix epoch; 0: not yet
	born  time.Time
}

// traceStart begins the spans of a run, and returns how launch takes part.
func (p *process) traceStart(run int) (t launch.Tracing) {
	params := p.launch.Params
	ctx := tracing.Under(params.Trace)
	if p.env.Tracer != nil {
		p.traced = &traced{asked: time.Now(), forks: new(atomic.Int64)}
		about := []attribute.KeyValue{attribute.String("troupe.session", p.sessionID()), attribute.String("troupe.process", p.id), attribute.Int("troupe.run", run)}
		if len(params.Argv) > 0 {
			about = append(about, attribute.String("process.command", params.Argv[0]))
		}
		ctx, p.traced.start = p.env.Tracer.Start(ctx, "start", trace.WithTimestamp(p.traced.asked), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(about...))
		p.traced.ctx = ctx
		forks := p.traced.forks
		t.Forks = func() { forks.Store(time.Now().UnixNano()) }
	}
	if params.TraceEnv {
		t.Variables = tracing.Variables(ctx)
	}
	return t
}

// part is a span below start.
func (p *process) part(name string, from, to time.Time) {
	_, span := p.env.Tracer.Start(p.traced.ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}

// tracedBirth ends the span of a start: its program runs, or err is why not.
func (p *process) tracedBirth(err error) {
	t := p.traced
	if t == nil || t.start == nil {
		return
	}
	t.born = time.Now()
	forks := t.born // it failed before
	if at := t.forks.Load(); at != 0 {
		forks = time.Unix(0, at)
		p.part("fork", forks, t.born)
	}
	p.part("queue", t.asked, forks)
	if err != nil {
		t.start.SetStatus(codes.Error, wireerr.From(err).Message)
	} else {
		t.start.SetAttributes(attribute.Int("process.pid", p.run.handle.PID()))
	}
	t.start.End(trace.WithTimestamp(t.born))
	if t.start = nil; err != nil {
		p.traced = nil
	}
}

// tracedOutput ends the span of the first output.
func (p *process) tracedOutput() {
	if t := p.traced; t != nil && t.start == nil {
		p.part("first output", t.born, time.Now())
		p.traced = nil
	}
}
