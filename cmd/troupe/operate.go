//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
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
		if err := admin.CheckMetrics(f.metrics); err != nil {
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

// open answers those who operate the server s, which listens at url, until close is called. first: no server was there before. A later one goes on also
// if nobody can operate it, because its clients wait.
func (f *operateFlags) open(s *admin.Server, url string, first bool) (close func(), err error) {
	var all []func() error
	close = func() {
		for _, one := range all {
			one()
		}
	}
	fails := func(err error) error {
		if first {
			close()
			return err
		}
		s.Log.Error("nobody can operate the server, or watch it", "err", err)
		return nil
	}
	path, asked := f.path(), f.admin != ""
	if !asked && !strings.HasPrefix(url, "stdio") {
		dir, err := target.StateDir(os.Getenv)
		if err != nil {
			s.Log.Info("there is no socket for troupe admin: name one with --admin", "reason", err)
		} else {
			path = adminSocket(dir, url)
		}
	}
	if path != "" {
		switch l, err := transport.ListenUnix(path); {
		case err == nil:
			all = append(all, admin.Serve(l, s.Handler(), true, s.Log))
		case !asked:
			s.Log.Warn("there is no socket for troupe admin: name one with --admin", "reason", err)
		default:
			if err := fails(fmt.Errorf("--admin: %w", err)); err != nil {
				return nil, err
			}
		}
	}
	if f.metrics != "" {
		l, err := admin.ListenMetrics(f.metrics)
		if err == nil {
			all = append(all, admin.Serve(l, s.Public(), false, s.Log))
			s.Log.Info("answers Prometheus", "url", "http://"+l.Addr().String()+admin.PathMetrics)
		} else if err := fails(fmt.Errorf("--metrics-listen: %w", err)); err != nil {
			return nil, err
		}
	}
	return close, nil
}
