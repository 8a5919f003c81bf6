package turns

import (
	"testing"
	"testing/synctest"
	"time"
)

// While calls hang, a connection without a call still gets a turn, as long as there is any. A waiting
// connection is told of a free turn, and is refused when all calls hang.
func TestFileTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(9)
		end := make(chan struct{})
		told := 0
		w := &Waiter{func() { told++ }}
		hang := func(under int) {
			t.Helper()
			if ok, err := turns.Take(under, w); !ok || err != nil {
				t.Fatalf("call %d: %v, %v", under, ok, err)
			}
			go turns.Run(func() { <-end })
		}
		for i := range 6 {
			hang(i)
		}
		if ok, err := turns.Take(6, w); ok || err != nil || told > 0 {
			t.Errorf("%v, %v: it does not wait", ok, err)
		}
		hang(0)
		end <- struct{}{}
		synctest.Wait()
		if told != 1 || turns.running != 6 || turns.Hanging() != 0 {
			t.Errorf("told %d times, %d run", told, turns.running)
		}
		if ok, err := turns.Take(6, w); ok || err != nil {
			t.Errorf("%v, %v: it does not wait", ok, err)
		}
		time.Sleep(hangTime + 1)
		synctest.Wait()
		if told != 2 || turns.Hanging() != 6 {
			t.Errorf("told %d times, %d hang", told, turns.Hanging())
		}
		if ok, err := turns.Take(6, w); ok || err == nil {
			t.Errorf("%v, %v: it is not refused", ok, err)
		}
		for range 3 {
			hang(0)
		}
		if ok, err := turns.Take(0, w); ok || err != nil {
			t.Errorf("%v, %v: it does not wait", ok, err)
		}
		turns.Forget(w)
		close(end)
		synctest.Wait()
		if told != 2 || turns.Hanging() != 0 || turns.running != 0 {
			t.Errorf("told %d times, %d run, %d hang", told, turns.running, turns.Hanging())
		}
	})
}
