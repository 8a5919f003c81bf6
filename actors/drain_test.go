package actors_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/transport"
)

// ways are the ways to end a session with a client, and how the connection ends then.
var ways = []struct {
	name  string
	end   func(troupe *actors.Troupe, p *peer)
	ended func(t *testing.T, err error, missing string)
}{
	{"the server shuts down", func(troupe *actors.Troupe, _ *peer) { go troupe.Shutdown(context.Background()) }, func(t *testing.T, err error, missing string) {
		if end, ok := errors.AsType[*transport.CloseError](err); !ok || end.Code != transport.CloseGoingAway || end.Reason != "server shutdown"+missing {
			t.Errorf("the connection ended with %v, want %d %s", err, transport.CloseGoingAway, missing)
		}
	}},
	{"session/close", func(_ *actors.Troupe, p *peer) { p.send(`{"id":99,"method":"session/close"}`) }, func(t *testing.T, err error, _ string) {
		if err != io.EOF {
			t.Errorf("the connection ended with %v, want Close 1000", err)
		}
	}},
}

// slowReader starts a program that writes size bytes and lives on. The client reads a message only when the test takes one.
// The other client, an observer, reads everything at once.
func slowReader(t *testing.T, config actors.Config, size int) (troupe *actors.Troupe, slow, other *peer) {
	config.Window = 64 << 10
	troupe = start(t, config)
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, theirs.About())
	slow = reads(t, ours, 0)
	session := slow.open(`,"capabilities":{"gap":true}`)
	slow.start("a", `,"retention":{"bytes":4000000}`, "sh", "-c", fmt.Sprintf("exec 2>/dev/null; trap 'exit 7' TERM; head -c %d /dev/zero; while :; do sleep 0.01; done", size))
	other = connect(t, troupe)
	other.open(fmt.Sprintf(`,"resumeSessionId":%q,"role":"observer"`, session))
	for written := fmt.Sprintf(`"outputBytes":%d,`, size); ; time.Sleep(time.Millisecond) {
		if m := other.call("process/info", `{"processId":"a"}`); strings.Contains(string(m.Result), written) {
			break
		}
	}
	return troupe, slow, other
}

// A client that reads slowly gets all output, the exit and the answer, and then the Close.
func TestSlowReaderGetsAll(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			const size = 1_500_000
			troupe, p, _ := slowReader(t, actors.Config{}, size)
			way.end(troupe, p)
			want := told{bytes: size, exit: 7, rest: []string{"session/expiring", "process/exited", "process/closed", "session/evicted"}}
			if way.name == "session/close" {
				want.rest = []string{"process/exited", "process/closed", "99", "session/evicted"}
			}
			got, end := p.toTheEnd(t, func(bytes int) { time.Sleep(time.Duration(bytes) * 4 * time.Second / size) })
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			way.ended(t, end, "")
		})
	}
}

// Without time for the output, a client gets what was sent, a gap in place of the rest, all events, and a Close that says how much
// is missing.
func TestSlowReaderIsTold(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			const size = 1_500_000
			troupe, p, other := slowReader(t, actors.Config{DrainTimeout: -1}, size)
			way.end(troupe, p)
			for _, open := other.next(); open; _, open = other.next() {
			}
			// The session has ended for the observer, and so for the client that has read nothing.
			got, end := p.toTheEnd(t, func(int) {})
			if got.lost == 0 || got.bytes+got.lost != size || got.exit != 7 {
				t.Errorf("%+v, want %d bytes in all, some of them in a gap, exit code 7", got, size)
			}
			way.ended(t, end, fmt.Sprintf("; %d bytes of output were not sent: they were read too slowly", got.lost))
		})
	}
}

// told is what a client got of the end of a session.
type told struct {
	bytes, lost, exit int
	rest              []string // other notifications, and ids of answers
}

// toTheEnd takes all messages, with a pause after each, up to the Close.
func (p *peer) toTheEnd(t *testing.T, pause func(bytes int)) (got told, end error) {
	for m, ok := p.next(); ok; m, ok = p.next() {
		switch m.Method {
		case "process/output":
			got.bytes += len(m.Params.Chunk)
		case "process/gap":
			got.lost += m.Params.Bytes
		case "process/exited":
			got.exit = m.Params.ExitCode
			fallthrough
		default:
			got.rest = append(got.rest, m.Method+string(m.ID))
		}
		pause(len(m.Params.Chunk))
	}
	return got, p.end
}
