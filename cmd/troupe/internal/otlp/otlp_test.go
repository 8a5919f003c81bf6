package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The request is what the specification wants: ids hexadecimal, times as texts in nanoseconds.
func TestRequest(t *testing.T) {
	var got bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != Path || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s", r.Method, r.URL, r.Header)
		}
		io.Copy(&got, r.Body)
		w.Write([]byte("{}"))
	}))
	defer server.Close()
	url, err := Endpoint(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(New(url, slog.New(slog.DiscardHandler))), sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "x"))))
	at := time.Unix(1_700_000_000, 123_456_789)
	ctx, parent := provider.Tracer("troupe").Start(context.Background(), "start", trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.Int("n", 7), attribute.Bool("b", true), attribute.String("s", "é\"")))
	_, child := provider.Tracer("troupe").Start(ctx, "fork", trace.WithTimestamp(at))
	child.SetStatus(codes.Error, "no")
	child.End(trace.WithTimestamp(at.Add(time.Second)))
	parent.End(trace.WithTimestamp(at.Add(2 * time.Second)))
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, c := parent.SpanContext(), child.SpanContext()
	want := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"x"}}]},"scopeSpans":[{"scope":{"name":"troupe"},"spans":[` +
		`{"traceId":"` + c.TraceID().String() + `","spanId":"` + c.SpanID().String() + `","parentSpanId":"` + p.SpanID().String() + `","flags":1,"name":"fork","kind":1,` +
		`"startTimeUnixNano":"1700000000123456789","endTimeUnixNano":"1700000001123456789","status":{"code":2,"message":"no"}},` +
		`{"traceId":"` + p.TraceID().String() + `","spanId":"` + p.SpanID().String() + `","flags":1,"name":"start","kind":2,` +
		`"startTimeUnixNano":"1700000000123456789","endTimeUnixNano":"1700000002123456789","attributes":[{"key":"n","value":{"intValue":"7"}},{"key":"b","value":{"boolValue":true}},{"key":"s","value":{"stringValue":"é\""}}]}` +
		`]}]}]}`
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", &got, want)
	}
	if !json.Valid(got.Bytes()) {
		t.Error("no JSON")
	}
}

// A collector that takes nothing costs the spans, and a line of the log.
func TestNoCollector(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"503 Service Unavailable: not now": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusServiceUnavailable) },
		"connect: connection refused":      nil,
	} {
		server := httptest.NewServer(answer)
		if answer == nil {
			server.Close()
		}
		var log bytes.Buffer
		provider := sdk.NewTracerProvider(sdk.WithSyncer(New(server.URL, slog.New(slog.NewTextHandler(&log, nil)))))
		_, span := provider.Tracer("t").Start(context.Background(), "s")
		span.End()
		server.Close()
		if text := log.String(); !strings.Contains(text, "spans are lost") || !strings.Contains(text, name) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:4318":      "http://127.0.0.1:4318/v1/traces",
		"https://otel.example.org/":  "https://otel.example.org/v1/traces",
		"http://[::1]:4318/x/traces": "http://[::1]:4318/x/traces",
		"127.0.0.1:4318":             "", "grpc://127.0.0.1:4317": "", "http://": "", "http://u:p@h:1": "", "http://h:1/?a=b": "", "": "",
	} {
		if got, err := Endpoint(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
