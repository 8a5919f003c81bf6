package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
)

// Attach leaves everything else on the connection alone: here the body of an HTTP response, of which half has come.
func TestAttachKeepsTheConnection(t *testing.T) {
	t.Parallel()
	rest := make(chan struct{})
	h, web, url := newWeb(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half, ")
		w.(http.Flusher).Flush()
		<-rest
		io.WriteString(w, "whole")
	})
	ctx := within(t)
	c := h.client(t, nil)
	web.Transport = c.Transport()
	resp, err := web.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len("half, "))); err != nil {
		t.Fatal(err)
	}
	program := h.client(t, &client.Options{Session: c.SessionID(), Control: true}).Command("sh", "-c", "echo one; read x; echo two")
	program.StdinOpen = true
	if err := program.Start(ctx); err != nil {
		t.Fatal(err)
	}
	again := c.Attach(program.ID, 0)
	var got strings.Builder
	again.Stdout, again.Stdin = &got, strings.NewReader("\n")
	if err := again.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(ctx); err != nil || got.String() != "one\ntwo\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
	close(rest)
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "whole" {
		t.Errorf("the body: %q, %v", body, err)
	}
}
