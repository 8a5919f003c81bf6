package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/gorilla/websocket"
)

// quickstart returns docs/QUICKSTART.md.
func quickstart(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/QUICKSTART.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestQuickstartClient: the client in QUICKSTART.md passes on each byte of stdin and output once, and the exit code, wherever its
// connections break: within the answer to a request, within output, and right after the end of the program.
func TestQuickstartClient(t *testing.T) {
	t.Parallel()
	python := needs.Program(t, "python3")
	program := regexp.MustCompile("(?s)\n```python\n(.*?)```\n").FindStringSubmatch(quickstart(t))
	if program == nil {
		t.Fatal("QUICKSTART.md has no client")
	}
	client := filepath.Join(t.TempDir(), "client.py")
	if err := os.WriteFile(client, []byte(program[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t)
	var in strings.Builder // more than the queue of stdin holds
	for i := range 60_000 {
		fmt.Fprintf(&in, "in: %d\n", i)
	}
	var want strings.Builder
	for i := 1; i <= 300; i++ {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	want.WriteString(in.String())
	for _, test := range []struct {
		every int64 // bytes
		cuts  int
	}{{1500, 10}, {2500, 10}, {20_000, 10}, {100_000, 5}} {
		t.Run(fmt.Sprint(test.every), func(t *testing.T) {
			t.Parallel()
			network := newCutter(t, strings.TrimPrefix(s.url, "ws://"), test.cuts, test.every)
			cmd := exec.CommandContext(t.Context(), python, client, "ws://"+network.Addr(),
				"sh", "-c", "for i in $(seq 300); do echo line $i; done; cat; echo end >&2; exit 7")
			cmd.WaitDelay = time.Minute
			cmd.Stdin = strings.NewReader(in.String())
			var out, log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &log
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != 7 || log.String() != "end\n" {
				t.Errorf("%v, want exit code 7: %s", err, &log)
			}
			if out.String() != want.String() {
				t.Errorf("%d bytes, want %d", out.Len(), want.Len())
			}
			network.Close()
			if n := int(network.cuts.Load()); n < test.cuts {
				t.Errorf("the connection broke %d times, want %d", n, test.cuts)
			}
		})
	}
}

// TestQuickstartMessages sends what QUICKSTART.md sends, and compares the messages of a server with those of the document.
func TestQuickstartMessages(t *testing.T) {
	t.Parallel()
	if found := converse(t, quickstart(t), startServer(t).url); found < 20 {
		t.Errorf("QUICKSTART.md has only %d messages", found)
	}
}

// converse sends what a document sends, and compares the messages of a server with those of the document. There, ✂ is a cut, and … stands for further
// members, or for the rest of an id. converse returns the number of messages.
func converse(t *testing.T, document, url string) (found int) {
	t.Helper()
	dial := func() *websocket.Conn {
		ws, _, err := websocket.DefaultDialer.Dial(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		return ws
	}
	ws := dial()
	var unmatched []obj // messages of the server: answers and notifications have no order among each other
	session := ""
	lines := regexp.MustCompile(`(?m)^    ([→←✂])(.*(?:\n       .*)*)`).FindAllStringSubmatch(document, -1)
	for _, line := range lines {
		text := regexp.MustCompile(`\s*\n\s+`).ReplaceAllString(strings.TrimSpace(line[2]), "")
		switch found++; line[1] {
		case "→":
			text = regexp.MustCompile(`"[0-9a-z]{1,8}-…"`).ReplaceAllString(text, `"`+session+`"`)
			if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
		case "✂":
			ws.UnderlyingConn().(*net.TCPConn).SetLinger(0)
			ws.Close()
			ws, unmatched = dial(), nil
		case "←":
			text = regexp.MustCompile(`,?…}`).ReplaceAllString(text, `}`)
			var want obj
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			same := func(m obj) bool { return reflect.DeepEqual(m["id"], want["id"]) }
			for !slices.ContainsFunc(unmatched, same) {
				ws.SetReadDeadline(time.Now().Add(factTimeout))
				var m obj
				if err := ws.ReadJSON(&m); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				unmatched = append(unmatched, m)
			}
			i := slices.IndexFunc(unmatched, same)
			got := unmatched[i]
			unmatched = slices.Delete(unmatched, i, i+1)
			if result, ok := got["result"].(map[string]any); ok && session == "" {
				session = result["sessionId"].(string)
			}
			if err := covers(got, want, strings.Contains(line[2], "…")); err != nil {
				t.Errorf("%s\nwas %s: %v", line[2], jsonText(got), err)
			}
		}
	}
	return found
}

// covers returns an error if a member of want is missing in got or has another value, and unless more also if got has other members.
// A string that ends with … stands for each longer string, and after the beginning of a UUID for each string.
func covers(got, want any, more bool) error {
	if text, ok := want.(string); ok && strings.HasSuffix(text, "…") {
		begins := regexp.MustCompile("^[0-9a-f]{8}-$").ReplaceAllString(strings.TrimSuffix(text, "…"), "")
		if was, ok := got.(string); !ok || !strings.HasPrefix(was, begins) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	}
	if list, ok := want.([]any); ok {
		was, ok := got.([]any)
		if !ok || len(was) != len(list) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		for i := range list {
			if err := covers(was[i], list[i], more); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	}
	w, ok := want.(map[string]any)
	g, both := got.(map[string]any)
	if !ok || !both {
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	}
	if !more && len(g) != len(w) {
		return errors.New("it has other members")
	}
	for name := range w {
		if err := covers(g[name], w[name], more); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
