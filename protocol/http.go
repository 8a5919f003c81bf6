package protocol

// A request to an HTTP server, which the exec-server sends. (exec-server wire §8.)

// MethodHTTPRequest has HTTPRequestParams and HTTPRequestResult.
const MethodHTTPRequest = "http/request"

// HTTPHeader is one header field. A name may come several times.
type HTTPHeader struct {
	Name  string `json:"name" wire:"required"`
	Value string `json:"value" wire:"required"`
}

// HTTPRequestParams is what to send, and how to be answered.
type HTTPRequestParams struct {
	Method  string       `json:"method" wire:"required"`
	URL     string       `json:"url" wire:"required"` // absolute, of http or https
	Headers []HTTPHeader `json:"headers,omitempty"`
	Body    []byte       `json:"bodyBase64,omitempty"`

	// TimeoutMs is how long all of it may take, the body of the response included, in
	// milliseconds; nil or 0 means for as long as the connection lives.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`

	RedirectPolicy HTTPRedirectPolicy `json:"redirectPolicy,omitempty"` // "" means HTTPFollow

	// RequestID names the stream in its HTTPBodyDeltaNotification; until the last of these no
	// other stream of the connection has it.
	RequestID string `json:"requestId" wire:"required"`

	// StreamResponse asks for the body in notifications; the result then has none.
	StreamResponse bool `json:"streamResponse,omitempty"`
}

// HTTPRedirectPolicy is what becomes of a response that leads elsewhere.
type HTTPRedirectPolicy string

const (
	HTTPFollow HTTPRedirectPolicy = "follow"
	HTTPStop   HTTPRedirectPolicy = "stop" // it is the response
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

// HTTPRequestResult is a response, whatever its status.
type HTTPRequestResult struct {
	Status  int          `json:"status"`
	Headers []HTTPHeader `json:"headers"` // names in lower case
	Body    []byte       `json:"bodyBase64"`
}

// HTTPBodyDeltaNotification is a piece of a body that is streamed. They come in the order of Seq,
// from 1 on, after the result.
type HTTPBodyDeltaNotification struct {
	RequestID string  `json:"requestId" wire:"required"`
	Seq       uint64  `json:"seq" wire:"required"`
	Delta     []byte  `json:"deltaBase64" wire:"required"`
	Done      bool    `json:"done" wire:"required"` // the last; Delta is empty
	Error     *string `json:"error"`                // of the last: why the body is not whole; nil: it is
}
