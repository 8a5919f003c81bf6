package tests

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUpLines: each line that troupe up shows is a whole line of one program, and each hole is told.
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
	told := len(regexp.MustCompile(`(?m)^troupe up: flood: output \d+ to \d+ is missing here: `).FindAllString(up.stderr.String(), -1))
	last, holes := 0, 0
	others := make(map[string][]string)
	for line := range strings.Lines(up.stdout.String()) {
		line = strings.TrimSuffix(line, "\n")
		name, text, output := strings.Cut(line, " | ")
		if name = strings.TrimSpace(name); !output {
			if name, text, output = strings.Cut(line, " ! "); output {
				name = strings.TrimSpace(name) + "!"
			} else if strings.HasPrefix(line, "flood ") && strings.Contains(line, "ended") && last != 1310720 {
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
		if strings.Contains(text, "…") {
			continue // a part of a line, beside a hole
		}
		n, err := strconv.Atoi(text)
		if err != nil || n <= last || n > 1310720 {
			t.Fatalf("after line %d comes %.100q", last, text)
		}
		if n != last+1 {
			holes++
		}
		last = n
	}
	if last != 1310720 || (holes > 0) != (told > 0) {
		t.Errorf("the last line is %d; %d holes, and %d are told", last, holes, told)
	}
	t.Logf("%d holes, %d told", holes, told)
	for name, want := range map[string]string{"slow": "1234 the rest", "slow!": "err", "runs": "half half", "long": strings.Repeat("x", 300000)} {
		if got := strings.Join(others[name], " "); got != want {
			t.Errorf("%s: %.100q, want %.100q", name, got, want)
		}
	}
}
