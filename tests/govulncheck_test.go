//go:build slow

package tests

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGovulncheck runs .ci/govulncheck against databases of the test. None of them is on a network.
func TestGovulncheck(t *testing.T) {
	t.Parallel()
	database := func(file, data string) string {
		dir := t.TempDir()
		for _, err := range []error{os.Mkdir(filepath.Join(dir, "index"), 0o777), os.WriteFile(filepath.Join(dir, file), []byte(data), 0o666)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return "-db=file://" + dir
	}
	vulnerable := database("GO-2026-9999.json", `{"schema_version":"1.3.1","id":"GO-2026-9999","modified":"2026-01-01T00:00:00Z",
		"affected":[{"package":{"name":"github.com/gorilla/websocket","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":"github.com/gorilla/websocket","symbols":["Upgrader.Upgrade"]}]}}],
		"database_specific":{"url":"https://example.org"}}`)
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "welcome")
	}))
	defer fake.Close()
	const (
		theirs = ""                // the database of the Go project
		small  = "./internal/fifo" // quick to read
	)
	for _, c := range []struct{ name, of, database, proxy, says string }{
		{"a call of a vulnerable function", "./transport", vulnerable, "", "exit 3: calls websocket.Upgrader.Upgrade"},
		{"no vulnerability", small, database("index/modules.json", "[]"), "", "exit 0: No vulnerabilities found"},
		{"no network", small, theirs, "http://127.0.0.1:1", "exit 0: govulncheck: skipped: the network does not reach its database"},
		{"another server", small, theirs, fake.URL, "exit 1: server gave HTTP response to HTTPS client"},
		{"no database", small, "-db=file:///dev/null/database", "", "exit 1: not a directory"},
	} {
		var args []string
		if c.database != theirs {
			args = append(args, c.database)
		}
		cmd := exec.Command("../.ci/govulncheck", append(args, c.of)...)
		cmd.Env = append(os.Environ(), "HTTPS_PROXY="+c.proxy, "NO_PROXY=")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		code, says, _ := strings.Cut(c.says, ": ")
		if cmd.ProcessState.String() != strings.Replace(code, "exit", "exit status", 1) || !strings.Contains(string(out), says) {
			t.Errorf("%s: %s, want %s and %q in the output:\n%s", c.name, cmd.ProcessState, code, says, out)
		}
	}
}
