package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/transport"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// A start has a span below that of its client, with its parts below; the program knows the span. A session and a resume have one each.
func TestSpans(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	troupe := start(t, actors.Config{Tracer: provider.Tracer("troupe")})
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	inTrace := fmt.Sprintf(`"trace":{"traceparent":"00-%s-b7ad6b7169203331-01","tracestate":"a=b"}`, theirs)
	p := connect(t, troupe)
	session := p.open("")
	asked := 100
	call := func(id, more, argv string) message {
		asked++
		p.send(fmt.Sprintf(`{"id":%d,"method":"process/start",%s,"params":{"processId":%q,"argv":%s,"cwd":"file:///","env":{"TRACEPARENT":"mine","TRACESTATE":"mine","PATH":"/usr/bin:/bin"},"arg0":null,"tty":false%s}}`, asked, inTrace, id, argv, more))
		return p.answer(fmt.Sprint(asked))
	}
	call("a", `,"traceEnv":true`, `["sh","-c","echo $TRACEPARENT $TRACESTATE"]`)
	told, _ := p.untilClosed("a", 0)
	call("b", "", `["sh","-c","echo $TRACEPARENT"]`)
	own, _ := p.untilClosed("b", 0)
	if own != "mine\n" {
		t.Errorf("a program that has not asked got %q", own)
	}
	if m := call("c", "", `["/does/not/exist"]`); m.Error == nil {
		t.Error("nothing was started, and there is no error")
	}
	p.conn.Close(transport.CloseNormal, "")
	again := connect(t, troupe)
	again.send(fmt.Sprintf(`{"id":1,"method":"initialize",%s,"params":{"clientName":"t","resumeSessionId":%q}}`, inTrace, session))
	again.answer("1")
	again.send(`{"method":"initialized"}`)
	again.call("session/close", `{}`)

	find := func(name, process string) (found sdk.ReadOnlySpan) {
		t.Helper()
		for began := time.Now(); found == nil; time.Sleep(time.Millisecond) {
			for _, s := range spans.Ended() {
				if s.Name() == name && (process == "" || attributeOf(s, "troupe.process") == process) {
					found = s
				}
			}
			if time.Since(began) > limit {
				t.Fatalf("no span %s of %q", name, process)
			}
		}
		return found
	}
	a := find("start", "a")
	if a.SpanContext().TraceID().String() != theirs || a.Parent().SpanID().String() != "b7ad6b7169203331" || attributeOf(a, "process.pid") == "" || attributeOf(a, "troupe.run") != "1" {
		t.Errorf("start: %+v", a)
	}
	if want := fmt.Sprintf("00-%s-%s-01 a=b\n", theirs, a.SpanContext().SpanID()); told != want {
		t.Errorf("the program knows %q, want %q", told, want)
	}
	parts := make(map[string]sdk.ReadOnlySpan)
	for _, s := range spans.Ended() {
		if s.Parent().SpanID() == a.SpanContext().SpanID() {
			parts[s.Name()] = s
		}
	}
	queue, fork, output := parts["queue"], parts["fork"], parts["first output"]
	if len(parts) != 3 || queue == nil || fork == nil || output == nil {
		t.Fatalf("parts of the start: %v", parts)
	}
	for _, times := range [][]time.Time{{a.StartTime(), queue.StartTime()}, {queue.EndTime(), fork.StartTime()}, {fork.EndTime(), a.EndTime()}, {a.EndTime(), output.StartTime()}} {
		if !times[0].Equal(times[1]) && times[0].Sub(times[1]).Abs() > time.Microsecond { // forks is in whole nanoseconds of the wall clock
			t.Errorf("there is a gap: %v", times)
		}
	}
	if c := find("start", "c"); !strings.Contains(c.Status().Description, "/does/not/exist") {
		t.Errorf("a start that has failed: %+v", c.Status())
	}
	if r := find("resume", ""); attributeOf(r, "troupe.session") != session || attributeOf(r, "troupe.role") != "owner" || r.SpanContext().TraceID().String() != theirs {
		t.Errorf("resume: %+v", r)
	}
	if s := find("session", ""); attributeOf(s, "troupe.session") != session || attributeOf(s, "troupe.reason") != "session closed by request" || s.SpanKind() != trace.SpanKindServer {
		t.Errorf("session: %+v", s)
	}
}

func attributeOf(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// Without a tracer the program gets the trace of its client, if it has asked.
func TestTraceOfClient(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, actors.Config{}))
	p.open("")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p.start("a", fmt.Sprintf(`,"traceEnv":true,"trace":{"traceparent":%q}`, parent), "sh", "-c", "echo $TRACEPARENT-$TRACESTATE")
	if told, _ := p.untilClosed("a", 0); told != parent+"-\n" {
		t.Errorf("%q", told)
	}
	p.start("b", `,"traceEnv":true`, "sh", "-c", "echo $TRACEPARENT-$TRACESTATE")
	if told, _ := p.untilClosed("b", 0); told != "-\n" {
		t.Errorf("%q", told)
	}
}
