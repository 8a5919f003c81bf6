package tests

import (
	"encoding/base64"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// counting returns the output of `seq 1 n`, and a script that prints this output.
func counting(n int) (text, script string) {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(strconv.Itoa(i))
		b.WriteByte('\n')
	}
	return b.String(), "seq 1 " + strconv.Itoa(n)
}

func spooled(t *testing.T, c *conn) int64 {
	t.Helper()
	return num(c.call("server/info", obj{})["spooledBytes"])
}

// TestSpool: while nobody is attached, a program writes far more than its retention without waiting.
// Its client later gets every byte once. The disk has no named file, and afterwards no data at all.
func TestSpool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, "--spool-dir", dir)
	want, script := counting(700_000) // 5 MiB
	c := s.session(knowing)
	c.mutePongs.Store(true) // acknowledged output would not come again
	other := s.session(nil)
	c.start("p", obj{"argv": sh("read x; " + script + "; exec 1>&-; seq 1 20 >&2; exit 7"), "pipeStdin": true, "retention": obj{"bytes": 64 << 10, "onFull": "spool"}})
	pid := c.process("p").pid()
	c.process("p").write("go\n")
	c.cutRST()
	eventually(t, "it has written all and exited, read by nobody", func() bool { return !alive(pid) })
	observer := s.observe(c.sessionID, nil)
	eventually(t, "most of its output is on disk", func() bool { return spooled(t, other) >= int64(len(want))*8/10 })
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("the directory has %v (%v)", names, err)
	}

	// The client reads a part with process/read, as a client of the peer does, and then everything over
	// cuts.
	got := ""
	for after := int64(0); len(got) < 1<<20; {
		res := observer.call("process/read", obj{"processId": "p", "afterSeq": after, "maxBytes": 300_000})
		for _, chunk := range res["chunks"].([]any) {
			chunk := chunk.(obj)
			data, err := base64.StdEncoding.DecodeString(chunk["chunk"].(string))
			if err != nil || chunk["stream"] != "stdout" {
				t.Fatalf("%v in %.200s", err, jsonText(chunk))
			}
			got, after = got+string(data), num(chunk["seq"])
		}
	}
	if !strings.HasPrefix(want, got) {
		t.Error("process/read gives other bytes than were written")
	}
	t.Cleanup(func() {
		if t.Failed() { // does its log wait, the limit of missed output, or the connection?
			t.Logf("process/info of p: %s", jsonText(observer.call("process/info", obj{"processId": "p"})))
		}
	})
	var stdout, stderr strings.Builder
	last := int64(0)
	for cut, over := 1, false; !over; cut++ {
		resumed := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": last}, "capabilities": obj{"gap": true}})
		p := resumed.process("p")
		if cut < 10 { // the rest may come before the cut
			resumed.awaitFact("more came", func() bool { return len(p.chunks) > 1 || p.closed })
			resumed.cutRST()
		} else {
			p.awaitClosed()
		}
		stdout.WriteString(p.outputSoFar("stdout"))
		stderr.WriteString(p.outputSoFar("stderr"))
		last = p.lastSeq()
		over = p.closed
	}
	if stdout.String() != want {
		t.Errorf("%d bytes came over all connections, other than the %d that were written", stdout.Len(), len(want))
	}
	if want, _ := counting(20); stderr.String() != want {
		t.Errorf("stderr: %q", stderr.String())
	}
	eventually(t, "of what was read only the newest is on the disk", func() bool { return spooled(t, other) <= 64<<10+128<<10 })
}

// TestSpoolOfTwoStreams: a program that nobody reads writes tens of thousands of small pieces to stdout and stderr in turn, and does
// not wait. Its client later gets every byte.
func TestSpoolOfTwoStreams(t *testing.T) {
	t.Parallel()
	const n = 20_000
	s := startServer(t)
	c := s.session(knowing)
	c.mutePongs.Store(true)
	c.start("p", obj{"argv": sh("read x; i=0; while [ $i -lt " + strconv.Itoa(n) + " ]; do i=$((i+1)); echo $i; echo $i >&2; done"), "pipeStdin": true,
		"retention": obj{"bytes": 64 << 10, "onFull": "spool"}})
	pid := c.process("p").pid()
	c.process("p").write("go\n")
	c.cutRST()
	eventually(t, "it has written all and exited, read by nobody", func() bool { return !alive(pid) })
	again := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 0}, "capabilities": obj{"gap": true}})
	p := again.process("p")
	p.awaitClosed()
	want, _ := counting(n)
	if out, errs := p.output("stdout"), p.output("stderr"); out != want || errs != want {
		t.Errorf("%d and %d bytes came, other than the %d that were written to each stream", len(out), len(errs), len(want))
	}
}

// TestSpoolFull: a full spool makes the program wait, like block. When the output is read, the program
// goes on.
func TestSpoolFull(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--spool-budget", "1000000")
	want, script := counting(700_000) // 4.5 MiB
	retention := obj{"bytes": 64 << 10, "onFull": "spool", "spoolBytes": 600_000}
	c := s.session(knowing)
	c.mutePongs.Store(true)
	observer := s.observe(c.sessionID, nil)
	c.start("a", obj{"argv": sh(script), "retention": retention})
	c.start("b", obj{"argv": sh(script), "retention": retention})
	eventually(t, "both wait, with the budget used up", func() bool {
		n := spooled(t, observer)
		if n > 1_000_000 {
			t.Fatalf("%d bytes are on disk, with a budget of 1,000,000", n)
		}
		a, _ := observer.waitsFor("a")
		b, _ := observer.waitsFor("b")
		return n > 800_000 && strings.Join(a, "")+strings.Join(b, "") == "ownerowner"
	})
	c.cutRST()
	again := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"a": 0, "b": 0}, "capabilities": obj{"gap": true}})
	for _, id := range []string{"a", "b"} {
		p := again.process(id)
		p.awaitClosed()
		if got := p.output("stdout"); got != want {
			t.Errorf("%s: %d bytes came, other than the %d that were written", id, len(got), len(want))
		}
	}
	eventually(t, "of what was read only the newest is on the disk", func() bool { return spooled(t, again) <= 2*(64<<10+128<<10) })
}

// TestSpoolFails: a full disk loses no byte. The program waits, and process/info gives the reason.
func TestSpoolFails(t *testing.T) {
	t.Parallel()
	needs.Mount(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s := startServer(t, "--spool-dir", dir)
	want, script := counting(700_000)
	c := s.session(knowing)
	c.mutePongs.Store(true)
	observer := s.observe(c.sessionID, nil)
	c.start("p", obj{"argv": sh(script), "retention": obj{"bytes": 64 << 10, "onFull": "spool"}})
	eventually(t, "it waits, and says why", func() bool {
		waits, info := observer.waitsFor("p")
		text := jsonText(info["waitsFor"])
		return strings.Join(waits, "") == "owner" && strings.Contains(text, "its spool has failed") && strings.Contains(text, "no space left on device")
	})
	c.cutRST()
	again := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 0}, "capabilities": obj{"gap": true}})
	p := again.process("p")
	p.awaitClosed()
	if got := p.output("stdout"); got != want {
		t.Errorf("%d bytes came, other than the %d that were written", len(got), len(want))
	}
}

func TestSpoolRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit     string
		retention obj
		text      string
	}{
		{"0", obj{"onFull": "spool"}, "retention.onFull spool is off on this server (--spool-limit 0): use block or evict"},
		{"1000", obj{"onFull": "spool", "spoolBytes": 1001}, "retention.spoolBytes is 1001, this server allows 1000 (spool-limit)"},
		{"1000", obj{"spoolBytes": 10}, "retention.spoolBytes is for onFull spool: set that, or leave it out"},
	} {
		c := startServer(t, "--spool-limit", tt.limit).session(nil)
		code, text := c.callError("process/start", startParams("p", obj{"argv": sh("exit 0"), "retention": tt.retention}))
		if code != -32602 || !strings.Contains(text, tt.text) {
			t.Errorf("%s: code %d, %s; want %s", jsonText(tt.retention), code, text, tt.text)
		}
	}
}

// TestSpoolEnds: the end of a session removes the spools of its processes. Many sessions that end at
// once are all answered.
func TestSpoolEnds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.session(nil)
	files := s.openFiles()
	want, script := counting(200_000)
	for range 2 {
		c := s.session(knowing)
		c.mutePongs.Store(true)
		observer := s.observe(c.sessionID, nil)
		// The owner asks for itself: it must not be silent for 30 s.
		for _, id := range []string{"ended", "writes"} {
			tail := "sleep 1000"
			if id == "ended" {
				tail = "exit 0"
			}
			c.request("process/start", startParams(id, obj{"argv": sh(script + "; " + tail), "retention": obj{"bytes": 64 << 10, "onFull": "spool"}}))
		}
		eventually(t, "both have written all", func() bool { return spooled(t, c) > int64(2*len(want))*8/10 })
		eventually(t, "the log has the output of the ended one", func() bool { return describe(t, c, "ended")["state"] == "closed" })
		var reads []int64
		for range 20 {
			reads = append(reads, observer.request("process/read", obj{"processId": "ended", "afterSeq": 3, "maxBytes": 256 << 10}))
		}
		first := ""
		for _, id := range reads {
			spooled(t, c)
			chunks := jsonText(observer.reply(id)["result"].(obj)["chunks"])
			if first == "" {
				first = chunks
			}
			if chunks != first || len(chunks) < 1000 {
				t.Fatalf("two answers to the same process/read differ, or are short: %d and %d characters, %.100s, %.100s", len(first), len(chunks), first, chunks)
			}
		}
		c.request("session/close", obj{}) // the answer would wait for 5 s, because the client does not acknowledge its output
		eventually(t, "the session has ended", func() bool { return num(other.call("server/info", obj{})["sessions"]) == 1 })
		c.cutRST()
		eventually(t, "nothing is on disk", func() bool { return spooled(t, other) == 0 })
	}
	eventually(t, "no file is open", func() bool { return s.openFiles() <= files })
}
