package transport

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The page of another server is no reason; the error names the status in one line. A troupe server's reason stays.
func TestRefusedByAnotherServer(t *testing.T) {
	const notOurs = "the answer is not of a troupe server, but perhaps of a proxy in front of one: "
	for _, c := range []struct {
		kind, body string
		status     int
		want       string
	}{
		{"text/html", "<html>\n<h1>404 Not Found</h1>\n</html>", 404, notOurs + "HTTP 404 Not Found"},
		{"text/html", "<p>one line</p>", 200, notOurs + "HTTP 200 OK"},
		{"text/plain; charset=utf-8", "two\nlines \x1b[2J", 502, notOurs + "HTTP 502 Bad Gateway"},
		{"text/plain; charset=utf-8", "404 page not found\n", 404, notOurs + "HTTP 404 Not Found"}, // of net/http
		{"application/json", `{"error":"no"}`, 401, notOurs + "HTTP 401 Unauthorized"},
		{"text/plain; charset=utf-8", "the token is wrong\n", 401, "the server opens no websocket: 401 Unauthorized: the token is wrong"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		_, err := Dial(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
		server.Close()
		if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Error() != c.want || refused.Status != c.status || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q, %q: %v, want %q", c.kind, c.body, err, c.want)
		}
	}
}
