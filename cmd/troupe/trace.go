//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/otlp"
)

// traceFlags are the flags of troupe serve about traces.
type traceFlags struct {
	endpoint string
	ratio    float64
}

func (f *traceFlags) check() error {
	if f.ratio < 0 || f.ratio > 1 {
		return fmt.Errorf("--trace-ratio %v: choose 0 to 1", f.ratio)
	}
	if f.endpoint == "" {
		return nil
	}
	if _, err := otlp.Endpoint(f.endpoint); err != nil {
		return fmt.Errorf("--trace-endpoint %w", err)
	}
	return nil
}

// flushTime is how long the last spans may take at the end of the server.
const flushTime = 3 * time.Second

// open returns the tracer of flags that check has accepted; nil: nobody traces. close sends the last spans.
func (f *traceFlags) open(version string, log *slog.Logger) (tracer trace.Tracer, close func()) {
	if f.endpoint == "" {
		return nil, func() {}
	}
	url, _ := otlp.Endpoint(f.endpoint) // check has found no error
	// The processor has a bounded queue, and drops spans when it is full.
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(otlp.New(url, log)),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(f.ratio))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "troupe"), attribute.String("service.version", version))),
	)
	return provider.Tracer("troupe"), func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		provider.Shutdown(ctx)
	}
}
