package client

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Whoever takes the notifications itself gets all of them, over a cut too, and acknowledges them itself.
func TestNotified(t *testing.T) {
	f := newFake(map[string]func(*fakeProcess){"hello": func(p *fakeProcess) { p.print(protocol.Stdout, "hello") }})
	notified, ended, resumed := make(chan string, 1000), make(chan error, 1), make(chan bool, 10)
	acked := make(chan uint64, 10)
	f.checks = map[string]func(*fakeProcess, uint64){"job": func(_ *fakeProcess, seq uint64) { acked <- seq }}
	c := connect(t, f, &Options{
		Initialize: func(p *protocol.InitializeParams) { p.ClientName = "hooks" },
		Resumed:    func() { resumed <- true },
		Ended:      func(err error) { ended <- err },
		Notified: func(method string, decode func(any) error) error {
			var n struct {
				ProcessID string `json:"processId"`
			}
			if err := decode(&n); err != nil {
				return err
			}
			notified <- method
			return nil
		},
	})
	f.cut()
	<-resumed
	done := make(chan error, 1)
	params := protocol.ProcessStartParams{ProcessID: "job", Argv: []string{"hello"}, Cwd: "file:///", Env: map[string]string{}}
	c.Go(protocol.MethodProcessStart, params, nil, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var got []string
	for !slices.Contains(got, protocol.NotifyClosed) {
		got = append(got, <-notified)
	}
	if want := []string{protocol.NotifyOutput, protocol.NotifyExited, protocol.NotifyClosed}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.Acknowledge("job", 2)
	if seq := <-acked; seq != 2 {
		t.Errorf("acknowledged %d, want 2", seq)
	}
	c.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	c.Go(protocol.MethodProcessList, protocol.Empty{}, nil, func(err error) { done <- err })
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// An idle client resumes after every cut, however long ago the first was.
func TestIdleCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		resumed, ended := make(chan bool, 1), make(chan error, 1)
		c := connect(t, f, &Options{Resumed: func() { resumed <- true }, Ended: func(err error) { ended <- err }})
		for i := range 5 {
			time.Sleep(20 * time.Second)
			f.cut()
			select {
			case <-resumed:
			case err := <-ended:
				t.Fatalf("after cut %d: %v", i+1, err)
			}
		}
		c.Close()
	})
}
