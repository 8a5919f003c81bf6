package connection

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

// An id may be empty, and its calls have an order as well.
func TestHandleWithoutName(t *testing.T) {
	f := newFileCalls(nil, nil)
	defer f.end(turns.New(9))
	for method, prepare := range map[string]func(*fileCall) error{
		"open":      func(call *fileCall) error { return openFile(f, call, protocol.FsOpenParams{Path: "file:///a"}) },
		"readBlock": func(call *fileCall) error { return readBlock(f, call, protocol.FsReadBlockParams{Len: 1}) },
		"writeBlock": func(call *fileCall) error {
			return writeBlock(f, call, protocol.FsWriteBlockParams{Chunk: []byte("x")})
		},
		"close": func(call *fileCall) error { return closeFile(f, call, protocol.FsCloseParams{}) },
	} {
		call := new(fileCall)
		if err := prepare(call); err != nil || call.handle == "" {
			t.Errorf("%s: about %q, %v", method, call.handle, err)
		}
	}
}

// A sandbox is refused whatever else is wrong with a request.
func TestSandboxIsRefusedFirst(t *testing.T) {
	f := newFileCalls(nil, nil)
	defer f.end(turns.New(9))
	c := &connection{files: f, writer: newWriter(nil, nil, nil)}
	c.writer.begin = func() {}
	asks := protocol.Confinement{Sandbox: []byte("{}")}
	for method, params := range map[string]any{
		protocol.MethodFsReadFile:  protocol.FsReadFileParams{Confinement: asks, Path: "no URI"},
		protocol.MethodFsReadBlock: protocol.FsReadBlockParams{Confinement: asks},
		protocol.MethodFsOpen:      protocol.FsOpenParams{Confinement: asks, HandleID: strings.Repeat("h", 1025)},
		protocol.MethodFsCopy:      protocol.FsCopyParams{Confinement: asks},
	} {
		methods[method].handle(c, nil, inbound{params: params})
		if answer, ok := c.writer.next(); !ok || answer.err == nil || answer.err.Message != asks.Unsupported().(*protocol.Error).Message {
			t.Errorf("%s: %v", method, answer.err)
		}
	}
}

// With calls that come and end in random order: calls about the same handle run one at a time and in
// the order sent, a single large call runs at a time, the bounds hold, and every call that may run runs.
func TestFileCallsTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFileCalls(nil, nil)
		var running, unwritten []*fileCall
		last := make(map[string]int) // of each handle
		weight := func(calls []*fileCall) (large, bytes int) {
			for _, c := range calls {
				if c.large {
					large++
				}
				bytes += c.bytes
			}
			return large, bytes
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				n++
				call := &fileCall{in: inbound{weight: n}}
				switch kind := rapid.SampledFrom([]string{"", "large", "a", "b"}).Draw(t, "kind"); kind {
				case "large":
					call.large = true
				default:
					call.handle = kind
				}
				f.waiting = append(f.waiting, call)
			},
			"end": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				call := running[i]
				running = slices.Delete(running, i, i+1)
				call.bytes = rapid.SampledFrom([]int{0, 100, fileWindow / 2, fileWindow}).Draw(t, "bytes")
				f.done(call)
				unwritten = append(unwritten, call)
			},
			"written": func(t *rapid.T) {
				if len(unwritten) == 0 {
					t.Skip()
				}
				f.written(unwritten[0])
				unwritten = unwritten[1:]
			},
			"": func(t *rapid.T) {
				for call := f.take(func() bool { return true }); call != nil; call = f.take(func() bool { return true }) {
					if _, bytes := weight(unwritten); bytes >= fileWindow {
						t.Fatalf("a call begins, and %d bytes of answers are unwritten", bytes)
					}
					running = append(running, call)
					if call.handle != "" {
						if call.in.weight < last[call.handle] {
							t.Fatalf("%d of handle %s after %d", call.in.weight, call.handle, last[call.handle])
						}
						last[call.handle] = call.in.weight
					}
				}
				handles := make(map[string]int)
				for _, c := range running {
					if handles[c.handle]++; c.handle != "" && handles[c.handle] > 1 {
						t.Fatalf("%d calls about handle %s run", handles[c.handle], c.handle)
					}
				}
				large, _ := weight(running)
				more, bytes := weight(unwritten)
				if len(running) > maxFileCalls || large+more > 1 {
					t.Fatalf("%d calls run, %d large", len(running), large+more)
				}
				if len(running) == maxFileCalls || bytes >= fileWindow {
					return
				}
				for _, c := range f.waiting {
					if (c.handle == "" || handles[c.handle] == 0) && (!c.large || large+more == 0) {
						var all []string
						for _, r := range running {
							all = append(all, fmt.Sprintf("%d(%s)", r.in.weight, r.handle))
						}
						t.Fatalf("%d waits, handle %q, while %s run", c.in.weight, c.handle, strings.Join(all, " "))
					}
				}
			},
		})
	})
}
