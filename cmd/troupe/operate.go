//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/admin"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/loglevel"
	"github.com/b6f6fdd7/troupe/internal/loglimit"
	"github.com/b6f6fdd7/troupe/transport"
)

// logFlags are the flags of troupe serve about its log.
type logFlags struct {
	levels, format string
	verbose        bool
}

func (f *logFlags) check() error {
	if f.levels != "" {
		if f.verbose {
			return fmt.Errorf("--verbose is --log-level debug: leave one of them out (--log-level is %s)", f.levels)
		}
		if err := new(loglevel.Levels).Set(f.levels); err != nil {
			return fmt.Errorf("--log-level %w", err)
		}
	}
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("--log-format %q: choose text or json", f.format)
	}
	return nil
}

// set sets the levels of flags that check has accepted.
func (f *logFlags) set(levels *loglevel.Levels) {
	text := f.levels
	switch {
	case f.verbose:
		text = "debug"
	case text == "":
		text = "info"
	}
	levels.Set(text) // check has found no error
}

// open returns a log whose levels follow levels.
func (f *logFlags) open(w io.Writer, levels *loglevel.Levels) *slog.Logger {
	f.set(levels)
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	var lines slog.Handler = slog.NewTextHandler(w, all)
	if f.format == "json" {
		all.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration {
				a.Value = slog.StringValue(a.Value.Duration().String()) // slog writes nanoseconds
			}
			return a
		}
		lines = slog.NewJSONHandler(w, all)
	}
	return slog.New(loglimit.New(loglevel.New(lines, levels)))
}

// operateFlags are the flags of troupe serve for those who operate it.
type operateFlags struct{ admin, metrics string }

// noAdmin is the value of --admin for a server without it.
const noAdmin = "none"

func (f *operateFlags) check() error {
	if f.admin != "" && f.admin != noAdmin && f.path() == "" {
		return fmt.Errorf("--admin %q: write unix://PATH, or %s. Whoever can connect there has the rights of the server, so there are no other addresses", f.admin, noAdmin)
	}
	if f.metrics != "" {
		if _, err := admin.MetricsAddress(f.metrics); err != nil {
			return fmt.Errorf("--metrics-listen %w", err)
		}
	}
	return nil
}

// path returns the path of --admin; "": it names none.
func (f *operateFlags) path() string {
	path, _ := strings.CutPrefix(f.admin, "unix://")
	if path == f.admin {
		return ""
	}
	return path
}

// adminPrefix begins the names of admin sockets.
const adminPrefix = "admin-"

// adminSocket returns the path of the admin socket of the server that listens at url, unless its --admin names another one.
func adminSocket(dir, url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(dir, fmt.Sprintf("%s%x.sock", adminPrefix, sum[:6]))
}

// operation is the sockets for those who operate a server.
type operation struct {
	path  string // of the admin socket; "": there is none
	open  []door
	close []func() error // of those that answer
}

// A door is a socket with its answers. lasts is as of admin.Serve.
type door struct {
	net.Listener
	answers http.Handler
	lasts   bool
}

// open opens the sockets for the server s, which listens at url. first: no server was there before. A later one goes on also if nobody can operate it,
// because its clients wait.
func (f *operateFlags) open(s *admin.Server, url string, first bool) (*operation, error) {
	o := new(operation)
	add := func(flag string, l net.Listener, err error, answers http.Handler, lasts bool) error {
		switch {
		case err == nil:
			o.open = append(o.open, door{l, answers, lasts})
		case first:
			o.end()
			return fmt.Errorf("--%s: %w", flag, err)
		default:
			s.Log.Error("the server serves without a socket for operators", "flag", flag, "err", err)
			s.Notes = append(s.Notes, fmt.Sprintf("nobody listens at --%s: %v", flag, err))
		}
		return nil
	}
	switch path := f.path(); {
	case path != "":
		o.path = path
		l, err := transport.ListenUnix(path)
		if err := add("admin", l, err, s.Handler(), true); err != nil {
			return nil, err
		}
	case f.admin == "" && !strings.HasPrefix(url, "stdio"):
		dir, err := target.StateDir(os.Getenv)
		var l net.Listener
		if err == nil {
			o.path = adminSocket(dir, url)
			l, err = transport.ListenUnix(o.path)
		}
		if err != nil {
			s.Log.Info("there is no socket for troupe admin: name one with --admin", "reason", err)
			o.path = ""
			break
		}
		o.open = append(o.open, door{l, s.Handler(), true})
	}
	if f.metrics != "" {
		l, err := admin.ListenMetrics(f.metrics)
		if err := add("metrics-listen", l, err, s.Public(), false); err != nil {
			return nil, err
		}
		if err == nil {
			s.Log.Info("answers Prometheus", "url", "http://"+l.Addr().String()+admin.PathMetrics)
		}
	}
	return o, nil
}

// serve answers from now on.
func (o *operation) serve(log *slog.Logger) {
	for _, d := range o.open {
		o.close = append(o.close, admin.Serve(d, d.answers, d.lasts, log))
	}
	o.open = nil
}

// end closes the sockets.
func (o *operation) end() {
	for _, d := range o.open {
		d.Close()
	}
	for _, close := range o.close {
		close()
	}
}
