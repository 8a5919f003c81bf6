package child

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestLookAs: a look has the permissions of its user alone, on whatever thread it begins, and the other threads keep
// theirs.
func TestLookAs(t *testing.T) {
	needs.Root(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const looks = 500
	var wg sync.WaitGroup
	for range looks {
		wg.Go(func() {
			err := LookAs(&User{UID: 54321, GID: 54322}, func() {
				if f, err := os.Open(secret); !errors.Is(err, os.ErrPermission) {
					t.Errorf("a user opens a file of root: %v", err)
					f.Close()
				}
			})
			if err != nil {
				t.Error(err)
			}
			if f, err := os.Open(secret); err != nil {
				t.Error(err)
			} else {
				f.Close()
			}
		})
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		wg.Wait()
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("a look did not end")
	}
}

// TestAsk: a question has the time and the turns of a start.
func TestAsk(t *testing.T) {
	h := newHost(t, HostConfig{AnswerTime: time.Hour})
	ask := func(owner string, ask func() error) error {
		done := make(chan error, 1)
		h.Ask(Spec{Owner: owner}, func(func(string)) error { return ask() }, func(err error) { done <- err })
		return <-done
	}
	wrong := errors.New("wrong")
	if err := ask("a", func() error { return wrong }); err != wrong {
		t.Errorf("%v, want the error of the question", err)
	}
	if err := ask("a", func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := ask("a", func() error { panic("a bug") }); err == nil {
		t.Error("a panic is not an answer")
	}
	release := make(chan struct{})
	defer close(release)
	answerTime := func(d time.Duration) { // of the next questions
		h.mu.Lock()
		defer h.mu.Unlock()
		h.answerTime = d
	}
	answerTime(50 * time.Millisecond)
	for range turnsEach {
		if err := ask("a", func() error { <-release; return nil }); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%v, want ErrNoAnswer", err)
		}
	}
	answerTime(time.Hour) // on a slow machine, also a question that is answered at once may take longer than before
	asked := false
	if err := ask("a", func() error { asked = true; return nil }); !errors.Is(err, ErrNoAnswer) || asked {
		t.Errorf("%v, asked %v: want no turn for an owner whose questions hang", err, asked)
	}
	if err := ask("b", func() error { return nil }); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

// TestGroups: a child has exactly the groups of its user.
func TestGroups(t *testing.T) {
	needs.Root(t)
	h := newHost(t, HostConfig{})
	spec := script("id -u; id -g; id -G")
	spec.User = &User{Name: "u", UID: 54321, GID: 54322, Groups: []uint32{54400, 54401, 54402}}
	w := start(t, h, spec)
	w.untilClosed()
	if got := string(w.out[protocol.Stdout]); got != "54321\n54322\n54322 54400 54401 54402\n" {
		t.Errorf("a child has the ids %q", got)
	}
}
