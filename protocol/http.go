package protocol

import "errors"

// This file has http/request: exec-server sends a request to an HTTP server for the client.
// (exec-server wire §8.)

const MethodHTTPRequest = "http/request" // HTTPRequestParams → HTTPRequestResult

// HTTPHeader is a header field of a response. A name may occur several times.
type HTTPHeader struct {
	Name  string `json:"name" wire:"required"`
	Value string `json:"value" wire:"required"`
}

// HTTPRequestHeader is a header field of a request. A name may occur several times. Without a ValueEnvVar,
// Value is required.
type HTTPRequestHeader struct {
	Name  string  `json:"name" wire:"required"`
	Value *string `json:"value,omitempty"`
	// ValueEnvVar names a variable in the environment of the server. Its value follows Value.
	ValueEnvVar *string `json:"valueEnvVar,omitempty"`
}

// Validate refuses a field without a value.
func (h HTTPRequestHeader) Validate() error {
	if h.Value == nil && h.ValueEnvVar == nil {
		return errors.New("missing field `value`")
	}
	return nil
}

// HTTPRequestParams describes the HTTP request, and the form of the answer.
type HTTPRequestParams struct {
	Method string `json:"method" wire:"required"` // sent as it is: get is not GET. Not CONNECT
	URL    string `json:"url" wire:"required"`    // absolute, http or https, at most 64 KiB; user:password@ becomes basic authentication
	// Headers have at most 1 MiB together. Fields of the same name keep their order; names have no order. A host replaces that
	// of the URL. The server ignores content-length, transfer-encoding and trailer: the length is that of the body.
	Headers []HTTPRequestHeader `json:"headers,omitempty"`
	Body    []byte              `json:"bodyBase64,omitempty"`

	// TimeoutMs is how long the whole exchange may take, from the arrival of the request at the server to the end of the
	// response's body, in milliseconds. Nil or 0 means: as long as the connection lives.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`

	RedirectPolicy HTTPRedirectPolicy `json:"redirectPolicy,omitempty"` // HTTPFollow (or ""): up to 10 redirects. HTTPStop: the redirect is the response

	// RequestID names the stream in each HTTPBodyDeltaNotification. No other stream of the
	// connection may use this name until the last notification. At most 1,024 bytes.
	RequestID string `json:"requestId" wire:"required"`

	// StreamResponse asks for the body in notifications; the body in the result is then empty.
	StreamResponse bool `json:"streamResponse,omitempty"`
}

// HTTPRedirectPolicy says how to handle a redirect.
type HTTPRedirectPolicy string

const (
	HTTPFollow HTTPRedirectPolicy = "follow"
	HTTPStop   HTTPRedirectPolicy = "stop" // the redirect itself is the response
)

// Validate refuses an unknown RedirectPolicy.
func (p HTTPRequestParams) Validate() error {
	if p.RedirectPolicy == "" {
		return nil
	}
	if err := oneOf(p.RedirectPolicy, HTTPFollow, HTTPStop); err != nil {
		return within("redirectPolicy", err)
	}
	return nil
}

// HTTPRequestResult is a response with any status.
type HTTPRequestResult struct {
	Status  int          `json:"status"`
	Headers []HTTPHeader `json:"headers"` // names in lower case
	Body    []byte       `json:"bodyBase64"`
}

// HTTPBodyDeltaNotification is a piece of a streamed body. The pieces come after the result, in the
// order of Seq, from 1 on.
type HTTPBodyDeltaNotification struct {
	RequestID string  `json:"requestId" wire:"required"`
	Seq       uint64  `json:"seq" wire:"required"`
	Delta     []byte  `json:"deltaBase64" wire:"required"`
	Done      bool    `json:"done" wire:"required"` // the last piece; Delta is empty
	Error     *string `json:"error"`                // in the last piece: why the body is incomplete; nil: complete
}
