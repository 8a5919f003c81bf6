package actors_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
)

// heldStart is a troupe whose first program runs before anybody is told of its start.
type heldStart struct {
	*actors.Troupe
	begun chan struct{} // closed once the program runs
	tell  func()        // lets the start go on
}

func holdStart(t *testing.T) heldStart {
	var once sync.Once
	begun, held := make(chan struct{}), make(chan struct{})
	troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(self *actor.PID, m any) {
		if kindOf(self)+" "+fake.TypeName(m) == "process factsReady" {
			once.Do(func() { close(begun); <-held })
		}
	}, nil))
	tell := sync.OnceFunc(func() { close(held) })
	t.Cleanup(tell)
	return heldStart{troupe, begun, tell}
}

// slowStart returns the params of a process/start.
func slowStart(argv ...string) string {
	return `{"processId":"a","argv":["` + strings.Join(argv, `","`) + `"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false,"pipeStdin":true,"startToken":"once"}`
}

// meets sends requests about the process a while a is being started, then lets the start go on, and compares the answers, errors included.
func (p *peer) meets(start heldStart, wants [][3]string) {
	p.t.Helper()
	for i, w := range wants {
		p.send(fmt.Sprintf(`{"id":"r%d","method":%q,"params":{"processId":"a"%s}}`, i, w[0], w[1]))
	}
	p.send(`{"id":"taken","method":"session/info","params":{}}`)
	for left := len(wants); left > 0; {
		m, ok := p.next()
		if !ok {
			p.t.Fatalf("the connection ended before %d answers", left)
		}
		if string(m.ID) == `"taken"` { // the session has had all requests
			start.tell()
		}
		var i int
		if n, _ := fmt.Sscanf(string(m.ID), `"r%d"`, &i); n == 0 {
			continue // a notification
		}
		left--
		got := string(m.Result)
		if m.Error != nil {
			got = m.Error.Message
		}
		if !strings.Contains(got, wants[i][2]) {
			p.t.Errorf("%s: %s, want %s", wants[i][0], got, wants[i][2])
		}
	}
}

// whileStarting is what a client may ask about a process, in this order, and a part of each answer.
var whileStarting = [][3]string{
	{"process/write", `,"chunk":"aGVsbG8K","writeId":"1"`, `"status":"accepted"`},
	{"process/read", `,"afterSeq":0,"waitMs":60000`, `"nextSeq"`},
	{"process/info", ``, `"processId":"a"`},
	{"process/signal", `,"signal":"interrupt"`, `{}`},
	{"process/terminate", ``, `"running":true`},
	{"process/wait", ``, `"reason":"terminated by request"`},
}

const echo = `trap : INT; read line; echo got $line; exec sleep 600`

// A client is cut off while its program is being started, and comes back before the start is over. Its requests are for the program
// that is being started: no answer says that there is none, and no program goes on that the client has ended.
func TestRequestsMeetAStartUnderWay(t *testing.T) {
	t.Parallel()
	one := slowStart("sh", "-c", echo)
	for name, request := range map[string]string{
		"process": `{"id":"start","method":"process/start","params":` + one + `}`,
		"group":   `{"id":"start","method":"group/start","params":{"groupId":"g","startToken":"once","processes":[` + strings.Replace(one, `,"startToken":"once"`, "", 1) + `]}}`,
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again %t", name, again), func(t *testing.T) {
				t.Parallel()
				troupe := holdStart(t)
				first := connect(t, troupe.Troupe)
				id := first.open("")
				first.send(request)
				<-troupe.begun
				first.close()

				second := connect(t, troupe.Troupe)
				second.open(fmt.Sprintf(`,"resumeSessionId":%q,"takeover":true`, id))
				if again { // the client repeats its unanswered request, and is answered before any output
					second.send(request)
					troupe.tell()
					if m, ok := second.next(); !ok || string(m.ID) != `"start"` || m.Error != nil {
						t.Errorf("the first message after the start is %+v", m)
					}
				}
				second.meets(troupe, whileStarting)
			})
		}
	}
}

// The requests of a client meet the start that another client of the session has asked for, whether the program starts or not.
func TestRequestsMeetAStartOfAnother(t *testing.T) {
	t.Parallel()
	unknown := [][3]string{
		{"process/write", `,"chunk":"aGVsbG8K","writeId":"1"`, `"status":"unknownProcess"`},
		{"process/read", `,"afterSeq":0,"waitMs":60000`, "unknown process id a"},
		{"process/terminate", ``, `"running":false`},
		{"process/start", strings.TrimSuffix(strings.TrimPrefix(slowStart("/does/not/exist"), `{"processId":"a"`), "}"), "no such program"}, // the id is free
	}
	for _, c := range []struct {
		name, start string
		wants       [][3]string
	}{
		{"it starts", slowStart("sh", "-c", echo), whileStarting},
		{"it cannot start", slowStart("/does/not/exist"), unknown},
		{"the id is taken", slowStart("sh", "-c", echo), append([][3]string{
			{"process/start", `,"argv":["true"],"cwd":"file:///","env":{},"tty":false`, "process a already exists"},
		}, whileStarting...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			troupe := holdStart(t)
			owner := connect(t, troupe.Troupe)
			other := controller(t, troupe.Troupe, owner.open(""), "")
			owner.send(`{"id":"start","method":"process/start","params":` + c.start + `}`)
			<-troupe.begun
			other.meets(troupe, c.wants)
		})
	}
}

// A command is ended while it is being started: the answer to its start, or its last notification, says how it has ended.
func TestEndOfACommandThatStarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ start, end, over string }{
		"command/exec": {
			`{"id":"start","method":"command/exec","params":{"command":["sleep","600"],"processId":"a","disableTimeout":true}}`,
			`{"id":"end","method":"command/exec/terminate","params":{"processId":"a"}}`, `"exitCode":`,
		},
		"command/exec with argv": {
			`{"id":"start","method":"command/exec","params":{"argv":["sleep","600"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false}}`,
			`{"id":"end","method":"command/exec/terminate","params":{"sessionId":"session-1"}}`, `"sessionId":"session-1"`,
		},
		"process/spawn": {
			`{"id":"start","method":"process/spawn","params":{"command":["sleep","600"],"processHandle":"a","cwd":"/","timeoutMs":null}}`,
			`{"id":"end","method":"process/kill","params":{"processHandle":"a"}}`, `{}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			troupe := holdStart(t)
			p := connect(t, troupe.Troupe)
			p.open("")
			p.send(c.start)
			<-troupe.begun
			p.send(c.end)
			p.call("session/info", "{}")
			troupe.tell()
			var started, ended, exited bool
			for !started || !ended || !exited {
				m, ok := p.next()
				if !ok {
					t.Fatalf("the connection ended: started %t, ended %t, exited %t", started, ended, exited)
				}
				switch {
				case m.Error != nil:
					t.Fatalf("%s: %+v", m.ID, *m.Error)
				case string(m.ID) == `"end"`:
					ended = true
				case string(m.ID) == `"start"`:
					started, exited = true, exited || name == "command/exec"
					if !strings.Contains(string(m.Result), c.over) {
						t.Errorf("the start: %s, want %s", m.Result, c.over)
					}
				case strings.HasSuffix(m.Method, "/exited"):
					exited = true
				}
			}
		})
	}
}

// If a session ends while a program is being started, the program ends, too.
func TestNoStartOutlivesItsSession(t *testing.T) {
	t.Parallel()
	const process, command = `"method":"process/start","params":{"processId":"a","argv":%s,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}`,
		`"method":"command/exec","params":{"command":%s,"disableTimeout":true}`
	for name, c := range map[string]struct {
		start string
		end   func(heldStart, *peer)
	}{
		"closed": {process, func(_ heldStart, p *peer) { p.send(`{"id":"close","method":"session/close","params":{}}`) }},
		"without an owner": {process, func(_ heldStart, p *peer) {
			p.send(`{"id":"update","method":"session/update","params":{"detachedTtlMs":1}}`)
			p.answer(`"update"`)
			p.close()
		}},
		"ended by the server":  {process, func(troupe heldStart, _ *peer) { go troupe.Kill() }},
		"of a command, cut":    {command, func(_ heldStart, p *peer) { p.close() }},
		"of a command, closed": {command, func(_ heldStart, p *peer) { p.send(`{"id":"close","method":"session/close","params":{}}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			troupe := holdStart(t)
			p := connect(t, troupe.Troupe)
			p.open("")
			file := filepath.Join(t.TempDir(), "pid")
			argv, _ := json.Marshal([]string{"sh", "-c", "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 600"})
			p.send(`{"id":"start",` + fmt.Sprintf(c.start, argv) + `}`)
			<-troupe.begun
			var pid int
			waitFor(t, "the program has written its pid", func() bool {
				text, _ := os.ReadFile(file)
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				return pid > 0
			})
			c.end(troupe, p)
			troupe.tell()
			waitFor(t, "the program is gone", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
		})
	}
}
