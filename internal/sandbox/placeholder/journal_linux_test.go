package placeholder

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openJournal(t *testing.T, state string) *Holder {
	t.Helper()
	h, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// kill ends a server with a journal as SIGKILL does.
func (h *Holder) kill() {
	h.crash()
	h.journal.file.Close()
	h.journal.file = nil
}

func journals(t *testing.T, state string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(state, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

func TestNextServerRemovesWhatAKilledOneLeft(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	odd := dir + "/a\nb\xff \"c\""
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	killed, other := openJournal(t, state), new(Holder)
	hold(t, killed, resolve(t, dir, ".git", ".codex"))
	hold(t, killed, resolve(t, odd, ".codex"))
	used := hold(t, other, resolve(t, dir, ".git"))
	if err := os.Mkdir(dir+"/.codex/mine", 0o755); err != nil {
		t.Fatal(err)
	}
	killed.kill()

	openJournal(t, state)
	waitFor(t, "one journal is left", func() bool { return len(journals(t, state)) == 1 })
	wantGone(t, odd+"/.codex")
	wantKept(t, dir+"/.git")
	if entries, _ := os.ReadDir(dir + "/.codex"); len(entries) != 1 || entries[0].Name() != "mine" {
		t.Errorf("the directory that became a person's own has %v", entries)
	}
	used.Release()
	wantGone(t, dir+"/.git")
}

func TestJournalOfALivingServerStays(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	h := openJournal(t, state)
	held := hold(t, h, resolve(t, dir, ".codex"))
	for range 3 {
		clean(journals(t, state)[0])
	}
	wantKept(t, dir+"/.codex")
	held.Release()
	h.Close()
	if left := journals(t, state); len(left) > 0 {
		t.Errorf("a server that ended has left %v", left)
	}
}

func TestJournalStaysShort(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	h := openJournal(t, state)
	hold(t, h, resolve(t, dir, ".git"))
	for i := range 500 {
		hold(t, h, resolve(t, dir, fmt.Sprintf("%0250d", i))).Release()
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(h.journal.file.Fd()), &st); err != nil || st.Size == 0 || st.Size > 2*maxJournal {
		t.Errorf("after 500 sandboxes the journal has %d bytes, %v", st.Size, err)
	}
	h.kill()
	openJournal(t, state)
	waitFor(t, "the placeholder has gone", func() bool { return !exists(t, dir+"/.git") })
}

// A name in a missing directory: the second sandbox finds the placeholder of the first as that directory.
func TestPlaceholderInAPlaceholder(t *testing.T) {
	var a, b Holder
	dir := t.TempDir()
	first := hold(t, &a, resolve(t, dir, "x"))
	p := resolve(t, dir, "x", "x/y")
	p.Paths[1].Access = p.Paths[0].Access // the way to x/y
	second := hold(t, &b, p)
	wantKept(t, dir+"/x/y")
	first.Release()
	wantKept(t, dir+"/x")
	second.Release()
	wantGone(t, dir+"/x")
}

// The length counts, not the time: with much held, each end of a sandbox wrote the whole text together.
func TestJournalIsWrittenAnewOnlyIfHalfIsOld(t *testing.T) {
	h := openJournal(t, t.TempDir())
	var held []string
	for i := range 1000 {
		held = append(held, fmt.Sprintf("/%0200d", i))
	}
	h.note(held)
	one := []string{"/one"}
	if n := testing.AllocsPerRun(100, func() { h.note(one); h.forget(one) }); n > 20 {
		t.Errorf("with %d paths held, one more takes %v allocations", len(held), n)
	}
	h.forget(held[1:])
	if h.journal.size != len(held[0])+3 || h.journal.live != h.journal.size {
		t.Errorf("with one path, the journal has %d bytes, of these %d live", h.journal.size, h.journal.live)
	}
}
