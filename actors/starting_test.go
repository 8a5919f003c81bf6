package actors_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
)

// A client is cut off while its program is being started, and comes back before the start is over. What it sends then is for the program
// that is being started: no answer says that there is none, and no program goes on that the client has ended.
func TestRequestsMeetAStartUnderWay(t *testing.T) {
	t.Parallel()
	const echo = `["sh","-c","read line; echo got $line; exec sleep 600"]`
	for name, request := range map[string]string{
		"process": `{"id":"start","method":"process/start","params":{"processId":"a","argv":` + echo + `,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false,"pipeStdin":true}}`,
		"group": `{"id":"start","method":"group/start","params":{"groupId":"g","strategy":"one_for_one","processes":[
			{"processId":"a","argv":` + echo + `,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false,"pipeStdin":true}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			begun, held := make(chan struct{}), make(chan struct{})
			troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(self *actor.PID, m any) {
				if kindOf(self)+" "+fake.TypeName(m) == "process spawned" { // the program runs, and nobody has been told
					once.Do(func() { close(begun); <-held })
				}
			}, nil))
			first := connect(t, troupe)
			id := first.open("")
			first.send(request)
			<-begun
			first.close()

			second := connect(t, troupe)
			second.open(fmt.Sprintf(`,"resumeSessionId":%q,"takeover":true`, id))
			for _, later := range []string{
				`{"id":"write","method":"process/write","params":{"processId":"a","chunk":"aGVsbG8K","writeId":"1"}}`,
				`{"id":"read","method":"process/read","params":{"processId":"a","afterSeq":0,"waitMs":60000}}`,
				`{"id":"info","method":"process/info","params":{"processId":"a"}}`,
				`{"id":"terminate","method":"process/terminate","params":{"processId":"a"}}`,
				`{"id":"none","method":"process/terminate","params":{"processId":"none"}}`,
				`{"id":"wait","method":"process/wait","params":{"processId":"a"}}`,
				`{"id":"taken","method":"session/info","params":{}}`,
			} {
				second.send(later)
			}
			answers := map[string]message{}
			for len(answers) < 7 {
				m, ok := second.next()
				if !ok {
					t.Fatalf("the connection ended after the answers %v", answers)
				}
				if m.ID == nil {
					continue
				}
				id := strings.Trim(string(m.ID), `"`)
				if answers[id] = m; id == "taken" { // the session has all requests
					close(held)
				}
			}
			for id, m := range answers {
				if m.Error != nil {
					t.Errorf("%s: %+v", id, *m.Error)
				}
			}
			for id, want := range map[string]string{"write": `"status":"accepted"`, "terminate": `"running":true`, "none": `"running":false`, "wait": `"reason":"terminated by request"`} {
				if got := string(answers[id].Result); !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", id, got, want)
				}
			}
		})
	}
}
