package connection

import (
	"context"
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// watching returns a connection for fs/watch whose writer writes nothing.
func watching(t *testing.T) *connection {
	memory := budget.New(1 << 20).Account()
	c := &connection{files: newFileCalls(nil, memory), memory: memory, writer: newWriter(nil, nil, nil)}
	c.writer.begin = func() {}
	t.Cleanup(func() { c.files.end(turns.New(9)) })
	return c
}

// A watchId is free again after fs/unwatch, and a connection has a bounded number of watches.
func TestWatchIDs(t *testing.T) {
	c := watching(t)
	watch := func(id string) error {
		return c.files.reserve(&fileWatch{id: id, cancel: func() {}})
	}
	for i := range maxFileWatches {
		if err := watch(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(id, text string) {
		t.Helper()
		if err := watch(id); err == nil || err.(*protocol.Error).Message != text || err.(*protocol.Error).Code != protocol.CodeInvalidRequest {
			t.Errorf("%v, want %s", err, text)
		}
	}
	want("7", "watchId already exists: 7")
	want("one more", "there are 256 watches on this connection, which is the most: end another watch with fs/unwatch")
	c.unwatchFile(nil, inbound{}, protocol.FsUnwatchParams{WatchID: "7"})
	if err := watch("one more"); err != nil {
		t.Error(err)
	}
}

// An fs/unwatch may come while its watch begins. The watch ends, fs/watch is answered as ever, and a late
// message of the watch tells nothing.
func TestUnwatchWhileTheWatchBegins(t *testing.T) {
	c := watching(t)
	ended := false
	w := &fileWatch{id: "w", path: "/f", cancel: func() { ended = true }}
	if err := c.files.reserve(w); err != nil {
		t.Fatal(err)
	}
	c.unwatchFile(nil, inbound{}, protocol.FsUnwatchParams{WatchID: "w"})
	if answer, ok := c.writer.next(); !ok || answer.body != (protocol.Empty{}) || !ended {
		t.Errorf("fs/unwatch: %+v, the watch has ended: %v", answer, ended)
	}
	again := &fileWatch{id: "w", cancel: func() { t.Error("another watch with the id has ended") }}
	if err := c.files.reserve(again); err != nil {
		t.Fatal(err)
	}
	c.fileWatched(nil, new(fileCall), w, nil, context.Canceled)
	if answer, ok := c.writer.next(); !ok || answer.err != nil || answer.body != (protocol.FsWatchResult{Path: "/f"}) {
		t.Errorf("fs/watch: %+v", answer)
	}
	c.filesChanged(w)
	if o, ok := c.writer.next(); ok {
		t.Errorf("told after fs/unwatch: %+v", o)
	}
}

// A watch that fails frees its id.
func TestWatchThatFails(t *testing.T) {
	c := watching(t)
	ended := false
	w := &fileWatch{id: "w", cancel: func() { ended = true }}
	if err := c.files.reserve(w); err != nil {
		t.Fatal(err)
	}
	in := inbound{entry: methods[protocol.MethodFsWatch], wire: appServer}
	c.fileWatched(nil, &fileCall{in: in}, w, nil, context.DeadlineExceeded)
	if answer, _ := c.writer.next(); answer.err == nil || c.files.watched["w"] != nil || !ended {
		t.Errorf("%+v, %v", answer, c.files.watched)
	}
}
