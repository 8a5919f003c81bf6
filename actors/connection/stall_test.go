package connection

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

func TestStall(t *testing.T) {
	type seen struct {
		released, finished uint64
		working            bool
	}
	quiet := seen{5, 2, false}
	for _, c := range []struct {
		name string
		sees []seen
		want int // number of the look that finds a stall, from 1; 0: no look does
	}{
		{"nothing moves", []seen{quiet, quiet, quiet, quiet}, 4},
		{"the server works", []seen{{5, 2, true}, {5, 2, true}, {5, 2, true}, {5, 2, true}, {5, 2, true}}, 0},
		{"the server worked", []seen{{5, 2, true}, quiet, quiet, quiet, quiet}, 5},
		{"an answer was written", []seen{quiet, quiet, quiet, {6, 2, false}, {6, 2, false}, {6, 2, false}, {6, 2, false}, {6, 2, false}}, 8},
		// The writer has the answer, and may write it right now.
		{"a call was finished", []seen{quiet, quiet, quiet, {5, 3, false}, {5, 3, false}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stall{released: 5, finished: 2}
			got := 0
			for i, see := range c.sees {
				if s.look(see.released, see.finished, see.working) {
					got = i + 1
					break
				}
			}
			if got != c.want {
				t.Errorf("stalled at look %d, want %d", got, c.want)
			}
		})
	}
}

// goneConn is a pipe whose other side may be gone without its reader's knowing.
type goneConn struct {
	transport.Conn
	gone atomic.Bool
}

func (c *goneConn) Gone() bool        { return c.gone.Load() }
func (c *goneConn) SetMaxMessage(int) {}
func (c *goneConn) Admit()            {}

// slowDisk runs a test with a connection whose client reads everything, on a machine whose disk does
// nothing until the channel disk is closed.
func slowDisk(t *testing.T, turns *turns.Pool, test func(t *testing.T, disk chan struct{}, conn *goneConn, send func(string), answers chan string, ended chan error)) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		disk := make(chan struct{})
		troupe := spawn(func() actor.Actor { return slowSession{make(chan question, 10)} })
		e := quiet(config.Config{Faults: faults.New(func(_ *actor.PID, what any) {
			if what == "file" {
				<-disk
			}
		}, nil)})
		e.FileTurns, e.Info = turns, &protocol.EnvironmentInfo{Cwd: "file:///"}
		conn := new(goneConn)
		client := connect(t, spawn, e, troupe, func(theirs transport.Conn) transport.Conn {
			conn.Conn = theirs
			return conn
		})
		answers, ended := client.messages()
		client.open("")
		<-answers
		test(t, disk, conn, func(text string) { client.send(text) }, answers, ended)
		client.Close(protocol.CloseNormal, "")
	})
}

// large is a fs/writeFile; four of them fill the admission.
func large(id int, path string) string {
	return fmt.Sprintf(`{"id":%d,"method":"fs/writeFile","params":{"path":"file://%s","dataBase64":"%s"}}`,
		id, path, strings.Repeat(base64.StdEncoding.EncodeToString([]byte("xyz")), maxPendingBytes/16))
}

// Honest requests, however slow the disk, do not end their connection.
func TestSlowDiskIsNoStall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	slowDisk(t, turns.New(100), func(t *testing.T, disk chan struct{}, conn *goneConn, send func(string), answers chan string, ended chan error) {
		for id := range 4 {
			send(large(2+id, fmt.Sprint(path, id)))
		}
		select {
		case err := <-ended:
			t.Fatalf("while the disk was slow: %v", err)
		case <-time.After(time.Hour):
		}
		close(disk)
		for range 4 {
			if answer := <-answers; !strings.Contains(answer, `"result"`) {
				t.Error(answer)
			}
		}
		for id := range 4 {
			if st, err := os.Stat(fmt.Sprint(path, id)); err != nil || st.Size() != 3*maxPendingBytes/16 {
				t.Errorf("%v, %v", st, err)
			}
		}
		send(`{"id":6,"method":"environment/status"}`)
		<-answers
		synctest.Wait()
	})
}

// A connection whose file calls have no turn waits for others, and not for its client.
func TestNoTurnIsNoStall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	pool := turns.New(3)
	slowDisk(t, pool, func(t *testing.T, disk chan struct{}, conn *goneConn, send func(string), answers chan string, ended chan error) {
		close(disk)
		for range 3 { // others have all
			if ok, err := pool.Take(0, nil); !ok {
				t.Fatal(err)
			}
		}
		for id := range 4 {
			send(large(2+id, fmt.Sprint(path, id)))
		}
		select {
		case err := <-ended:
			t.Fatalf("while others had all turns: %v", err)
		case <-time.After(time.Hour):
		}
		for range 3 {
			pool.Run(func(*turns.Turn) {})
		}
		for range 4 {
			if answer := <-answers; !strings.Contains(answer, `"result"`) {
				t.Error(answer)
			}
		}
		synctest.Wait()
	})
}

// The end of a client is noticed although nobody reads the connection.
func TestGoneIsNoticedWhileUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	slowDisk(t, turns.New(100), func(t *testing.T, disk chan struct{}, conn *goneConn, send func(string), answers chan string, ended chan error) {
		for id := range 4 {
			send(large(2+id, fmt.Sprint(path, id)))
		}
		time.Sleep(time.Minute)
		conn.gone.Store(true)
		select {
		case err := <-ended:
			t.Log(err)
		case <-time.After(stallTime):
			t.Error("a client that has gone keeps its session")
		}
		close(disk)
		synctest.Wait()
	})
}

// A client whose starts wait for the server's forks is not at fault. The answer to command/exec
// waits for the program.
func TestSlowStartIsNoStall(t *testing.T) {
	for _, start := range []struct {
		method, params string
		stalls         bool
	}{
		{"process/start", `"processId":"%d","argv":["%s"],"cwd":"file:///","env":{},"tty":false`, false},
		{"process/spawn", `"processHandle":"%d","command":["%s"],"cwd":"/"`, false},
		{"command/exec", `"env":{"A":"%d"},"argv":["%s"],"cwd":"/","tty":false`, false},
		{"command/exec", `"processId":"%d","command":["%s"]`, true},
	} {
		slowDisk(t, turns.New(100), func(t *testing.T, _ chan struct{}, _ *goneConn, send func(string), answers chan string, ended chan error) {
			for id := range 4 {
				params := fmt.Sprintf(start.params, id, strings.Repeat("a", maxPendingBytes/4))
				send(fmt.Sprintf(`{"id":%d,"method":"%s","params":{%s}}`, 2+id, start.method, params))
			}
			select {
			case answer := <-answers:
				t.Errorf("%s was answered: %s", start.method, answer)
			case err := <-ended:
				if !start.stalls {
					t.Errorf("%s: while the starts were slow: %v", start.method, err)
				}
			case <-time.After(time.Hour):
				if start.stalls {
					t.Errorf("%s: an hour without an answer", start.method)
				}
			}
		})
	}
}
