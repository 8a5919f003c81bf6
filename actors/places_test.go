package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
)

// Closed processes whose owner has read everything give way to others, long before their retention is over. Unread processes stay.
func TestClosedProcessesGiveWay(t *testing.T) {
	t.Parallel()
	const places = 8
	p := connect(t, start(t, actors.Config{MaxProcesses: places, ClosedRetention: time.Hour}))
	p.open("")
	for i := range 5 * places {
		id := fmt.Sprint(i)
		waitFor(t, "a place", func() bool { // the process that gives way needs a moment
			m := p.call("process/start", fmt.Sprintf(`{"processId":%q,"argv":["echo","x"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}`, id))
			if m.Error != nil && !strings.HasPrefix(m.Error.Message, "max-processes is 8 here") {
				t.Fatalf("%+v", *m.Error)
			}
			return m.Error == nil
		})
		p.untilClosed(id, 0)
	}

	unread := connect(t, start(t, actors.Config{MaxProcesses: places, ClosedRetention: time.Hour}))
	unread.open(`,"capabilities":{"ack":true}`) // and acknowledges nothing
	for i := range places {
		unread.start(fmt.Sprint(i), "", "echo", "x")
		unread.untilClosed(fmt.Sprint(i), 0)
	}
	params := `{"processId":"more","argv":["true"],"cwd":"file:///","env":{},"tty":false}`
	if m := unread.call("process/start", params); m.Error == nil || !strings.HasPrefix(m.Error.Message, "max-processes is 8 here, and the session has 8") {
		t.Errorf("%s, %+v", m.Result, m.Error)
	}
	if m := unread.call("process/read", `{"processId":"0","afterSeq":0}`); m.Error != nil {
		t.Errorf("%+v", *m.Error)
	}
	unread.send(`{"method":"session/ack","params":{"processes":{"0":3}}}`)
	waitFor(t, "the first process gives way", func() bool { return unread.call("process/start", params).Error == nil })
}
