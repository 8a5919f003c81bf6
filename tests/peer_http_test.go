package tests

import (
	"io"
	"net/http"
	"slices"
)

// peerHTTP answers the requests of http/request in the table of the peer's behaviour:
//
//	/want?NAME=VALUE   200 if the request has the header NAME with these values, else 417. An empty VALUE
//	                   stands for no header
//	/to?URL            a redirect (302) to URL
//	/again?URL         the same with 307, which repeats method and body
//	/echo              the method, a blank, and the body
//	/late              nothing, until the client gives up
//	/slow              a header without a body, until the client gives up
//	/half              a body that ends too early
func peerHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["Date"] = nil
	switch r.URL.Path {
	case "/want":
		for name, values := range r.URL.Query() {
			if got := r.Header.Values(name); !slices.Equal(got, values) && !(len(got) == 0 && values[0] == "") {
				w.WriteHeader(http.StatusExpectationFailed)
				return
			}
		}
		io.WriteString(w, "ok")
	case "/to", "/again":
		w.Header().Set("Location", r.URL.RawQuery)
		w.WriteHeader(map[string]int{"/to": 302, "/again": 307}[r.URL.Path])
	case "/echo":
		io.WriteString(w, r.Method+" ")
		io.Copy(w, r.Body)
	case "/slow":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "/late":
		<-r.Context().Done()
	case "/half":
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "half")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
