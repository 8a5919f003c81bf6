package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// WaitDelay counts from the end of each run, and kills only the descendants of the same run.
func TestWaitDelayIsOfOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 10 * time.Second
		f := newFake(programs)
		c := connect(t, f, nil)
		cmd := c.Command("wait")
		cmd.WaitDelay = delay
		begin(t, cmd)
		p := cmd.process
		tell := func(what func()) {
			c.mu.Lock()
			defer c.mu.Unlock()
			what()
		}
		begin := time.Now()
		wants := func(after time.Duration, killed bool, run uint64) {
			t.Helper()
			time.Sleep(after - time.Since(begin))
			synctest.Wait()
			f.lock(func() {
				if it := f.procs[p.id]; it.killed != killed || it.run != run {
					t.Errorf("after %v: killed %t, run %d; want %t, run %d", after, it.killed, it.run, killed, run)
				}
			})
		}
		tell(func() { p.exit(&protocol.ExitedNotification{Seq: 1, ExitStatus: protocol.ExitStatus{Run: 1}}) })
		time.Sleep(5 * time.Second)
		tell(func() { p.restarted(&protocol.RestartedNotification{Run: 2}) })
		time.Sleep(time.Second)
		tell(func() { p.exit(&protocol.ExitedNotification{Seq: 1, ExitStatus: protocol.ExitStatus{Run: 2}}) })
		wants(delay, false, 0)
		wants(delay+6*time.Second-1, false, 0)
		wants(delay+6*time.Second, true, 2)
		if err := cmd.Wait(t.Context()); err == nil {
			t.Error("the program was killed, and Wait says nothing")
		}
		c.Close()
	})
}
