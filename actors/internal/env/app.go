package env

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// App has facts for clients of the app-server.
type App struct {
	// CodexHome is the directory in which the peer would keep its files. This server keeps nothing there.
	CodexHome string
	// originator replaces the name of clients at the beginning of UserAgent; "": it does not.
	originator string
}

// AppOf returns the facts about this machine. info is the answer to environment/info.
func AppOf(info *protocol.EnvironmentInfo) App {
	home := os.Getenv("CODEX_HOME")
	if home == "" {
		user, err := protocol.ParseFileURI(info.UserHomeDir)
		if err != nil {
			user = "/"
		}
		home = filepath.Join(user, ".codex")
	}
	if cwd, err := os.Getwd(); err == nil {
		home = absolute(cwd, home)
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	return App{CodexHome: filepath.Clean(home), originator: os.Getenv("CODEX_INTERNAL_ORIGINATOR_OVERRIDE")}
}

// UserAgent returns the member userAgent for a client. version is the server's. The text is printable ASCII, as in
// an HTTP header.
func (a App) UserAgent(client protocol.ClientInfo, version string) string {
	name, of, suffix := client.Name, client.Version, fmt.Sprintf(" (%s; %s)", client.Name, client.Version)
	if name == "codex_app_server_daemon" || name == "codex-backend" { // these act for other clients
		name, of, suffix = "codex_cli_rs", version, ""
	}
	agent := fmt.Sprintf("%s/%s (%s; %s) troupe/%s%s", cmp.Or(a.originator, name), of, runtime.GOOS, runtime.GOARCH, version, suffix)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, agent)
}
