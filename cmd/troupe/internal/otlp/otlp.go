// Package otlp sends spans to a collector of OpenTelemetry: OTLP over HTTP, in JSON (the OTLP specification, section OTLP/HTTP). The exporter of OpenTelemetry
// itself brings gRPC and adds 8 MB to the binary (decision 38).
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// sendTime is how long a collector may take for a batch.
	sendTime = 10 * time.Second
	// maxAnswer bounds the part of an answer in the log, in bytes.
	maxAnswer = 1 << 10
)

// Path is the usual path of a collector.
const Path = "/v1/traces"

// Endpoint returns the URL of a collector: http://HOST:PORT, or with a path.
func Endpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("%q: write http://HOST:4318 or https://HOST:4318, or with a path such as %s", text, Path)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = Path
	}
	return u.String(), nil
}

// Exporter sends batches to a collector. Spans that the collector does not take are lost, and the log says so.
type Exporter struct {
	url string
	log *slog.Logger
}

// New returns an Exporter for a URL of Endpoint.
func New(url string, log *slog.Logger) *Exporter { return &Exporter{url, log} }

// ExportSpans implements sdk.SpanExporter. Its error is always nil: OpenTelemetry would print it.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.send(ctx, spans); err != nil {
		e.log.Warn("spans are lost: the collector does not take them", "spans", len(spans), "url", e.url, "err", err)
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *Exporter) Shutdown(context.Context) error { return nil }

func (e *Exporter) send(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	body, err := json.Marshal(requestOf(spans))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case answer.StatusCode/100 != 2:
		return errors.New(strings.TrimSpace(answer.Status + ": " + string(text)))
	}
	return nil
}

// The request of OTLP, as far as troupe fills it. Numbers of 64 bits are texts in JSON, and ids hexadecimal.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []span `json:"spans"`
	}
	span struct {
		TraceID      string         `json:"traceId"`
		SpanID       string         `json:"spanId"`
		TraceState   string         `json:"traceState,omitempty"`
		ParentSpanID string         `json:"parentSpanId,omitempty"`
		Flags        uint32         `json:"flags"`
		Name         string         `json:"name"`
		Kind         trace.SpanKind `json:"kind"`
		Start        string         `json:"startTimeUnixNano"`
		End          string         `json:"endTimeUnixNano"`
		Attributes   []keyValue     `json:"attributes,omitempty"`
		Status       *status        `json:"status,omitempty"`
	}
	status struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// failed is STATUS_CODE_ERROR.
const failed = 2

// requestOf returns the request for spans of one resource and one tracer.
func requestOf(spans []sdk.ReadOnlySpan) request {
	var r resourceSpans
	var s scopeSpans
	for _, from := range spans {
		r.Resource.Attributes = keyValues(from.Resource().Attributes())
		s.Scope.Name = from.InstrumentationScope().Name
		s.Spans = append(s.Spans, spanOf(from))
	}
	r.ScopeSpans = []scopeSpans{s}
	return request{[]resourceSpans{r}}
}

func spanOf(from sdk.ReadOnlySpan) span {
	is := from.SpanContext()
	s := span{
		TraceID:    is.TraceID().String(),
		SpanID:     is.SpanID().String(),
		TraceState: is.TraceState().String(),
		Flags:      uint32(is.TraceFlags()),
		Name:       from.Name(),
		Kind:       from.SpanKind(), // OpenTelemetry has the numbers of OTLP
		Start:      strconv.FormatInt(from.StartTime().UnixNano(), 10),
		End:        strconv.FormatInt(from.EndTime().UnixNano(), 10),
		Attributes: keyValues(from.Attributes()),
	}
	if parent := from.Parent(); parent.HasSpanID() {
		s.ParentSpanID = parent.SpanID().String()
	}
	if st := from.Status(); st.Code == codes.Error {
		s.Status = &status{failed, st.Description}
	}
	return s
}

func keyValues(all []attribute.KeyValue) (list []keyValue) {
	for _, a := range all {
		value := map[string]any{}
		switch a.Value.Type() {
		case attribute.INT64:
			value["intValue"] = strconv.FormatInt(a.Value.AsInt64(), 10)
		case attribute.BOOL:
			value["boolValue"] = a.Value.AsBool()
		default:
			value["stringValue"] = a.Value.String()
		}
		list = append(list, keyValue{string(a.Key), value})
	}
	return list
}
