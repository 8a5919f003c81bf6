//go:build slow

package actors_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Many connections without a reader fill every place for bytes of clients in turn. Together the connections
// hold their part of --memory-budget, a single connection goes beyond, and each has a constant of its
// own. The other places, and their tests: messages that are
// being read (TestUnfinishedMessagesAreBounded), answers to process/read (TestUnreadReadsAreBounded), output (TestMemoryIsBounded), what one message
// becomes (TestMessagesDoNotGrowInMemory), lists of files (TestListsAreBoundedInBytes), names of refused notifications (TestOptOutKeepsKnownNames).
func TestClientBytesAreBounded(t *testing.T) {
	measured(t)
	const (
		connections = 12
		size        = 12 << 20
		clients     = 32 << 20 // a quarter of the budget
		constant    = 2 << 20  // of each connection and its session
	)
	data := make([]byte, size)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(data) }))
	defer web.Close()
	write := fmt.Appendf(nil, `{"id":"w","method":"process/write","params":{"processId":"a","writeId":"w","chunk":"%s"}}`, base64.StdEncoding.EncodeToString(data))

	for _, place := range []struct {
		name    string
		prepare func(s *stiff)
		message []byte // sent over and over
		hold    bool   // no file call ends while memory is measured
	}{
		{"stdin that a program does not read", func(s *stiff) { s.start("a", `,"pipeStdin":true`, "sleep", "1000") }, write, false},
		{"answers to fs/readFile", nil, fmt.Appendf(nil, `{"id":"f","method":"fs/readFile","params":{"path":"file://%s"}}`, file), false},
		{"bodies of HTTP", nil, fmt.Appendf(nil, `{"id":"h","method":"http/request","params":{"method":"GET","url":"%s","headers":[],"requestId":"r"}}`, web.URL), false},
		{"output of commands", nil, []byte(`{"id":"c","method":"command/exec","params":{"command":["sh","-c","head -c 5000000 /dev/zero | tr '\\0' a; sleep 1000"],"disableOutputCap":true,"disableTimeout":true}}`), false},
		{"requests about files", nil, fmt.Appendf(nil, `{"id":"o","method":"fs/writeFile","params":{"path":"file:///dev/full","dataBase64":"%s"}}`, base64.StdEncoding.EncodeToString(data[:1<<20])), true},
	} {
		t.Run(place.name, func(t *testing.T) {
			times, beyond := 3, int64(budget.Beyond)
			if place.hold {
				times, beyond = 40, 20<<20 // maxPendingBytes, and the message on its way in
			}
			// Requests of calls that end are garbage at once, and a heap full of garbage cannot be measured.
			measured := make(chan struct{})
			release := sync.OnceFunc(func() { close(measured) })
			defer release()
			troupe := start(t, actors.WithFaults(actors.Config{Budget: 4 * clients, AllowHTTP: true, KillGrace: -1}, func(_ *actor.PID, m any) {
				if m == "file" && place.hold {
					<-measured
				}
			}, nil))
			server := listen(t, troupe)
			witness := newStiff(t, troupe)
			witness.open("")
			taken := func() int64 {
				var info protocol.ServerInfoResult
				witness.send(`{"id":"info","method":"server/info"}`)
				if err := json.Unmarshal(witness.answer(`"info"`).Result, &info); err != nil {
					t.Fatal(err)
				}
				return info.ClientBytes
			}
			var all []*stiff
			for range connections {
				conn, err := transport.Dial(t.Context(), server.URL(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close(transport.CloseNormal, "") })
				s := &stiff{t, conn}
				s.open("")
				if place.prepare != nil {
					place.prepare(s)
				}
				all = append(all, s)
			}
			before := inUse()
			for _, s := range all {
				go func() {
					for range times {
						if s.conn.WriteMessage(place.message, false) != nil {
							return
						}
					}
				}()
			}
			most, mostTaken := int64(0), int64(0)
			// Until the memory has not grown for a second.
			for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if held := inUse() - before; held > most+1<<20 {
					most, end = held, time.Now().Add(time.Second)
				}
				mostTaken = max(mostTaken, taken())
			}
			if bound := int64(clients + beyond + connections*constant); most > bound || mostTaken > clients+beyond {
				t.Errorf("%d connections hold %d MiB, and %d MiB are taken; want %d MiB at most", connections, most>>20, mostTaken>>20, bound>>20)
			}
			t.Logf("at most %d MiB in the heap, %d MiB taken of %d", most>>20, mostTaken>>20, clients>>20)
			release()
			for _, s := range all {
				s.conn.Close(transport.CloseNormal, "")
			}
			waitFor(t, "what they took to be given back", func() bool { return taken() == 0 })
			waitFor(t, "what they held to be given back", func() bool {
				left := inUse() - before
				t.Logf("%d MiB are left", left>>20)
				return left < connections*constant
			})
		})
	}
}
