package actors_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// process/subscribe during output has the notifications begin again: after each answer the first is the next after afterSeq, and none
// is missing, doubled or of before.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	for _, acks := range []bool{false, true} {
		t.Run(fmt.Sprint("acks ", acks), func(t *testing.T) {
			t.Parallel()
			c := connect(t, start(t, actors.Config{}))
			c.open(fmt.Sprintf(`,"capabilities":{"ack":%t,"gap":true}`, acks))
			const lines = 200_000 // 1.3 MB
			c.start("a", "", "seq", fmt.Sprint(lines))
			random := rand.New(rand.NewPCG(1, 2))
			chunks := make(map[uint64]string)
			var last, highest, after uint64
			for n, asked := 0, false; ; {
				m, ok := c.next()
				if !ok {
					t.Fatal("the connection ended")
				}
				if string(m.ID) == "900" {
					if m.Error != nil || !strings.Contains(string(m.Result), `"processId":"a"`) {
						t.Fatalf("%s, %+v", m.Result, m.Error)
					}
					last, asked = after, false
					n++
				}
				if m.Params.ProcessID != "a" {
					continue
				}
				if m.Method == "process/gap" && m.Params.Seq <= highest { // of output that this client has had
					last = m.Params.Seq - 1
				}
				if m.Params.Seq != last+1 {
					t.Fatalf("seq %d after %d", m.Params.Seq, last)
				}
				if last++; last > highest {
					highest = last
					c.send(fmt.Sprintf(`{"method":"session/ack","params":{"processes":{"a":%d}}}`, highest))
				}
				if m.Method == "process/output" {
					if old, again := chunks[last]; again && old != string(m.Params.Chunk) {
						t.Fatalf("event %d comes again with another chunk", last)
					}
					chunks[last] = string(m.Params.Chunk)
				}
				if n < 20 && !asked && (random.IntN(3) == 0 || m.Method == "process/closed") {
					asked, after = true, random.Uint64N(highest)
					c.send(fmt.Sprintf(`{"id":900,"method":"process/subscribe","params":{"processId":"a","afterSeq":%d}}`, after))
				} else if m.Method == "process/closed" && !asked {
					break
				}
			}
			var all strings.Builder
			for seq := range highest {
				all.WriteString(chunks[seq+1])
			}
			if got := strings.Count(all.String(), "\n"); got != lines {
				t.Errorf("%d lines, want %d", got, lines)
			}
		})
	}
}

// With onlyNamed, process/subscribe names a process, for an observer and a controller.
func TestSubscribeNames(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	owner.start("a", "", "echo", "hello")
	owner.untilClosed("a", 0)
	for _, role := range []protocol.Role{protocol.RoleObserver, protocol.RoleController} {
		c := connect(t, troupe)
		c.open(fmt.Sprintf(`,"role":%q,"resumeSessionId":%q,"capabilities":{"onlyNamed":true}`, role, id))
		if m := c.call("process/subscribe", `{"processId":"a"}`); m.Error != nil || !strings.Contains(string(m.Result), `"state":"closed"`) {
			t.Errorf("%s: %s, %+v", role, m.Result, m.Error)
		}
		if out, _ := c.untilClosed("a", 0); out != "hello\n" {
			t.Errorf("%s got %q", role, out)
		}
	}
}
