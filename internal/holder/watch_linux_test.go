package holder

import (
	"fmt"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchedHolder is a holder with a server that has said Up and does nothing else. look lets a time pass, and then has the holder look.
func watchedHolder(t *testing.T) (h *holder, look func(time.Duration)) {
	t.Helper()
	server := exec.Command("sleep", "1000")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	h = &holder{pid: server.Process.Pid, Config: Config{Beat: time.Second, Log: t.Logf}}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	now := time.Now()
	h.watch.next = now
	h.do(Message{Kind: Up})
	return h, func(d time.Duration) {
		now = now.Add(d)
		h.look(now)
	}
}

// wantHangs looks at what the holder thinks of its server.
func wantHangs(t *testing.T, h *holder, want string) {
	t.Helper()
	if h.watch.hangs != want {
		t.Fatalf("the server hangs %q, want %q", h.watch.hangs, want)
	}
}

// A server that leaves a question unanswered hangs. An answer, even a late one, is enough, and each answer is followed by the next question.
func TestAnswers(t *testing.T) {
	h, look := watchedHolder(t)
	for question := range 3 {
		for range patience {
			look(h.Beat)
		}
		if len(h.out) != question+1 || h.out[question].Kind != Ask {
			t.Fatalf("the server was told %+v, want %d questions", h.out, question+1)
		}
		wantHangs(t, h, "")
		h.do(Message{Kind: Alive})
	}
	for range patience + 1 {
		wantHangs(t, h, "")
		look(h.Beat)
	}
	wantHangs(t, h, "no answer for 6s")
	for !wait(h.pid, unix.WNOHANG|unix.WNOWAIT).Ended {
	}
	if e := wait(h.pid, unix.WNOHANG|unix.WNOWAIT); e.Status.Signal() != unix.SIGQUIT {
		t.Errorf("the server has ended: %v", ending(e.Status))
	}
}

// Beats count only if a server could have answered: not while it is stopped, nor if the holder was late.
func TestBeatsThatDoNotCount(t *testing.T) {
	h, look := watchedHolder(t)
	for range 3 * patience {
		look(2 * h.Beat)
	}
	wantHangs(t, h, "")
	syscall.Kill(h.pid, unix.SIGSTOP)
	for !stopped(h.pid) {
	}
	for range 3 * patience {
		look(h.Beat)
	}
	syscall.Kill(h.pid, unix.SIGCONT)
	for stopped(h.pid) {
	}
	for range patience - 1 {
		look(h.Beat)
	}
	wantHangs(t, h, "")
	look(h.Beat)
	wantHangs(t, h, "no answer for 6s")
}

// A server that does not serve yet is not asked, and has longer. The first server, a server that ends, and one that is being replaced have all the time.
func TestWhoIsNotAsked(t *testing.T) {
	h, look := watchedHolder(t)
	h.served = false
	for _, not := range []*bool{new(bool), &h.stop, &h.upgrade.kills} {
		*not = true
		h.up = h.stop || h.upgrade.kills
		for range 2 * startPatience {
			look(h.Beat)
		}
		if *not = false; h.due() != (time.Time{}) != h.up {
			t.Error("a holder that does not look at its server wakes up")
		}
	}
	h.up = true
	look(h.Beat) // late
	for range startPatience {
		wantHangs(t, h, "")
		look(h.Beat)
	}
	if wantHangs(t, h, "not ready after 24s"); len(h.out) != 0 {
		t.Errorf("the server was told %+v", h.out)
	}
}

// hangs is a server of TestServerHangs. Its note says how many servers have hung. The first one ends at SIGQUIT, the second one does not, and the
// third one answers.
func hangs(s *Server) error {
	unix.Dup3(1, 2, 0) // for the stacks
	hung := 0
	if len(s.Found) > 0 {
		hung = len(s.Found[0].Note)
	}
	if strings.HasPrefix(s.Last, "no answer") {
		hung++
	}
	if hung > 0 {
		s.KeepNoted("", strings.Repeat("x", hung), nil)
	}
	switch hung {
	case 1:
		signal.Ignore(unix.SIGQUIT)
	case 2:
		s.Up()
		for range 2 {
			<-s.Asked()
			s.Alive()
		}
		fmt.Println("answered")
		return s.Stop()
	}
	s.Up()
	<-s.Lost()
	return ErrLost
}

// A server that answers no question ends with its stacks in the log. A server that SIGQUIT does not end is killed. The next server is told why.
func TestServerHangs(t *testing.T) {
	cmd, out := hold(t, "hangs")
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	for _, want := range []string{
		"hangs (no answer for 600ms): SIGQUIT", "SIGQUIT: quit", "holder.hangs(", "has died (no answer for 600ms)",
		"hangs (no answer for 600ms): SIGQUIT", "has not ended 200ms after SIGQUIT: it is killed", "has died (no answer for 600ms)", "answered",
	} {
		for found := false; !found; found = strings.Contains(out.Text(), want) {
			if !out.Scan() {
				t.Fatalf("the log has no %q", want)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
