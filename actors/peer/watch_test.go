package peer

import (
	"context"
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A watchId is free again after fs/unwatch, and a connection has a bounded number of watches.
func TestWatchIDs(t *testing.T) {
	var ws watches
	reserve := func(id string) *protocol.Error { return ws.reserve(&watch{id: id, cancel: func() {}}) }
	for i := range maxWatches {
		if err := reserve(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(id, text string) {
		t.Helper()
		if err := reserve(id); err == nil || err.Message != text || err.Code != protocol.CodeInvalidRequest {
			t.Errorf("%v, want %s", err, text)
		}
	}
	want("7", "watchId already exists: 7")
	want("one more", "there are 256 watches on this connection, which is the most: end another watch with fs/unwatch")
	ws.end("7")
	if err := reserve("one more"); err != nil {
		t.Error(err)
	}
}

// An fs/unwatch may come while its watch begins. The watch ends, and fs/watch is answered as ever, but nothing is told.
func TestUnwatchWhileTheWatchBegins(t *testing.T) {
	var ws watches
	ended := false
	w := &watch{id: "w", path: "/f", cancel: func() { ended = true }}
	if err := ws.reserve(w); err != nil {
		t.Fatal(err)
	}
	ws.end("w")
	if !ended {
		t.Error("the watch goes on")
	}
	again := &watch{id: "w", cancel: func() { t.Error("another watch with the id has ended") }}
	if err := ws.reserve(again); err != nil {
		t.Fatal(err)
	}
	if current, answer := ws.begun(w, context.Canceled); current || answer != (protocol.FsWatchResult{Path: "/f"}) {
		t.Errorf("fs/watch: %+v, current %v", answer, current)
	}
	ws.changed(connection.Request{}, w) // tells nothing
	if current, answer := ws.begun(again, nil); !current || answer == nil {
		t.Errorf("fs/watch again: %+v, current %v", answer, current)
	}
}

// A watch that fails frees its id.
func TestWatchThatFails(t *testing.T) {
	var ws watches
	ended := false
	w := &watch{id: "w", cancel: func() { ended = true }}
	if err := ws.reserve(w); err != nil {
		t.Fatal(err)
	}
	if _, answer := ws.begun(w, context.DeadlineExceeded); answer != nil || ws.named["w"] != nil || !ended {
		t.Errorf("%+v, %v", answer, ws.named)
	}
}
