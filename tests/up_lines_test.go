package tests

import (
	"strconv"
	"strings"
	"testing"
)

// TestUpLines: each line that troupe up shows is a whole line of one program, and no line is missing.
func TestUpLines(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(`processes:
  flood: {command: seq 1 1310720}
  slow: {command: "printf 12; sleep 2; echo 34; echo err >&2; printf 'the rest'"}
  runs: {command: "printf half; exit 1", restart: {policy: on_failure, max_restarts: 1, backoff: 10ms}}
  long: {command: "head -c 300000 /dev/zero | tr '\\0' x; echo"}
`)
	up := s.troupe("up")
	up.exitCode()
	last := 0
	others := make(map[string][]string)
	for line := range strings.Lines(up.stdout.String()) {
		line = strings.TrimSuffix(line, "\n")
		name, text, output := strings.Cut(line, " | ")
		if name = strings.TrimSpace(name); !output {
			if name, text, output = strings.Cut(line, " ! "); output {
				name = strings.TrimSpace(name) + "!"
			} else if strings.HasPrefix(line, "flood ") && strings.Contains(line, "exited") && last != 1310720 {
				t.Errorf("%q comes after line %d", line, last)
			}
		}
		if !output {
			continue
		}
		if name != "flood" {
			others[name] = append(others[name], text)
			continue
		}
		if n, err := strconv.Atoi(text); err != nil || n != last+1 {
			t.Fatalf("after line %d comes %.100q; stderr: %s", last, text, up.stderr)
		}
		last++
	}
	if last != 1310720 || strings.Contains(up.stderr.String(), "missing") {
		t.Errorf("the last line is %d; stderr: %s", last, up.stderr)
	}
	for name, want := range map[string]string{"slow": "1234 the rest", "slow!": "err", "runs": "half half", "long": strings.Repeat("x", 300000)} {
		if got := strings.Join(others[name], " "); got != want {
			t.Errorf("%s: %.100q, want %.100q", name, got, want)
		}
	}
}

// TestUpWhileOthersAct: a troupe up in the foreground goes on over a changed file that another command applies, and shows all
// that the programs write until troupe down in another terminal has ended them.
func TestUpWhileOthersAct(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	web := func(word string) {
		s.write(`processes:
  web: {command: "trap 'seq 1 20000; exit 3' TERM; i=0; while :; do i=$((i+1)); echo ` + word + ` $i; sleep 0.01; done"}
`)
	}
	web("one")
	up := s.troupe("up")
	s.awaitShown(up, `web +\| one 5$`)
	web("two")
	s.run(0, "up", "--detach")
	s.awaitShown(up, `web +\| two 5$`)
	s.run(0, "down")
	code := up.exitCode()
	var words []string
	next := make(map[string]int)
	for line := range strings.Lines(up.stdout.String()) {
		name, text, output := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
		if !output || strings.TrimSpace(name) != "web" {
			if strings.Contains(line, "exited: exit code 3") {
				words = append(words, "ended")
			}
			continue
		}
		if strings.Contains(text, "…") {
			continue // a part of a line, beside a hole
		}
		word, number, counted := strings.Cut(text, " ")
		if !counted {
			word, number = "seq", text
		}
		if next[word] == 0 || word == "seq" && number == "1" {
			words, next[word] = append(words, word), 1
		}
		if n, err := strconv.Atoi(number); err != nil || n != next[word] {
			t.Fatalf("%q where %s %d is due", text, word, next[word])
		}
		next[word]++
	}
	if got := strings.Join(words, " "); got != "one seq ended two seq ended" || next["seq"] != 20001 || code != 3 || strings.Contains(up.stderr.String(), "missing") {
		t.Errorf("%s; the last line is %d; exit code %d; stderr %q", got, next["seq"]-1, code, up.stderr)
	}
}
