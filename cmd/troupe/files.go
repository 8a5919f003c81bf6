package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has what the commands about files of the server have in common: cp, ls, cat, rm and stat.

// remoteHelp explains paths on the server.
const remoteHelp = `A path on the server is absolute, or relative to the home directory of the server's user. It may begin
with a colon, or with the name of a server of the config file and a colon: build:/var/log.`

// filesTTL is how long the session of such a command lives without a connection, and so how long the command tries to
// come back after a cut.
const filesTTL = 5 * time.Minute

// filesDeadAfter is how long a server may be silent before such a command tries another connection. A server is silent
// while a block of a file (copyBuffer in package transfer) passes a slow link: a link with 9 KB/s is fast enough.
const filesDeadAfter = 30 * time.Second

// remoteName splits what a person writes as [SERVER]:PATH. ok is false if arg has no colon before the first slash, or begins with a
// drive of Windows.
func remoteName(arg string) (server, name string, ok bool) {
	server, name, ok = strings.Cut(arg, ":")
	if !ok || strings.Contains(server, "/") || filepath.VolumeName(arg) != "" {
		return "", arg, false
	}
	return server, name, true
}

// remotePaths takes the names of servers off arguments for paths on the server, and sets the server of t.
func remotePaths(t *target.Flags, args []string) ([]string, error) {
	paths := make([]string, len(args))
	for i, arg := range args {
		server, name, _ := remoteName(arg)
		if err := chooseServer(t, server, arg); err != nil {
			return nil, err
		}
		paths[i] = name
	}
	return paths, nil
}

// chooseServer sets the server that an argument names. "": the argument names none.
func chooseServer(t *target.Flags, server, arg string) error {
	switch {
	case server == "" || server == t.Server:
		return nil
	case t.URL != "":
		return wrong("%s names the server %s, and --url another one: leave one out, or write ./ before a file here", arg, server)
	case t.Server != "":
		return wrong("%s names the server %s, and another argument or flag %s: use one server at a time", arg, server, t.Server)
	}
	t.Server = server
	return nil
}

// A remote is the files of a server, for one command.
type remote struct {
	c      *client.Client
	fs     *client.FS
	home   string       // of the server's user
	silent atomic.Int64 // for how long the server has said nothing, a time.Duration; 0: the link is good
}

// withFiles connects, and calls do. The first ^C ends ctx; the second ^C ends the program.
func withFiles(t *target.Flags, name string, do func(ctx context.Context, r *remote) error) error {
	ctx, stop := interruptible(context.Background())
	defer stop()
	r := new(remote)
	told := time.AfterFunc(math.MaxInt64, func() { fmt.Fprintf(os.Stderr, "troupe %s: %s for at most %v\n", name, show.Lost, filesTTL) })
	defer told.Stop()
	lost := func(d time.Duration) {
		switch was := r.silent.Swap(int64(d)); {
		case d == 0:
			told.Stop()
		case was == 0 && !onTerminal(os.Stderr): // else the line about the progress says it
			told.Reset(shortCut)
		}
	}
	c, err := t.Dial(ctx, &client.Options{
		Name: "troupe " + name, DetachedTTL: filesTTL, ReconnectFor: client.Forever,
		PingEvery: time.Second, DeadAfter: filesDeadAfter,
		Silent: lost,
		Lost:   func(error) { lost(time.Second) }, Resumed: func() { lost(0) },
	})
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		c.CloseSession(ctx)
	}()
	r.c, r.fs, r.home = c, c.FS("/").WithContext(ctx), "/"
	env, err := c.Environment(ctx)
	if err != nil {
		return err
	}
	if home, err := protocol.ParseFileURI(env.UserHomeDir); err == nil {
		r.home = home
	}
	err = do(ctx, r)
	if sig, ok := errors.AsType[errInterrupted](context.Cause(ctx)); ok {
		return exitError{exitSignal + int(sig.Signal), sig}
	}
	return err
}

// at returns the name of a path in r.fs.
func (r *remote) at(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = p[1:]
		p = path.Join(r.home, p)
	} else if !path.IsAbs(p) {
		p = path.Join(r.home, p)
	}
	if p = strings.Trim(path.Clean(p), "/"); p == "" {
		return "."
	}
	return p
}

// full returns the path of a name, for messages.
func full(name string) string { return show.Harmless(path.Join("/", name)) }

// plainly returns err for people: without the operation, and with the path on the server.
func plainly(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// onPaths runs the command name: onPaths calls do for each path on the server, prints the errors, and fails if there was one. end, if not nil,
// is called last.
func onPaths(t *target.Flags, name string, args []string, do func(r *remote, p string) error, end func() error) error {
	paths, err := remotePaths(t, args)
	if err != nil {
		return err
	}
	return withFiles(t, name, func(_ context.Context, r *remote) error {
		failed := false
		for _, p := range paths {
			if err := do(r, p); err != nil {
				if stdout.failed() != nil {
					return exitError{exitFailure, nil} // main tells what could not be printed
				}
				failed = true
				fmt.Fprintf(os.Stderr, "troupe %s: %s: %s\n", name, show.Harmless(p), show.Harmless(plainly(err).Error()))
			}
		}
		if end != nil {
			if err := end(); err != nil {
				return err
			}
		}
		if failed {
			return exitError{exitFailure, nil}
		}
		return nil
	})
}

// fileJSON is a file for programs.
type fileJSON struct {
	Path     string    `json:"path,omitempty"`
	Name     string    `json:"name"`
	Kind     string    `json:"kind"` // file, directory, symlink or other
	Mode     string    `json:"mode"` // octal digits
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Target   string    `json:"target,omitempty"`
}

// jsonAtEnd returns what prints all as JSON; nil: the command prints no JSON.
func jsonAtEnd(asJSON bool, all *[]fileJSON) func() error {
	if !asJSON {
		return nil
	}
	return func() error { return show.JSON(stdout, *all) }
}

func describeFile(p string, info fs.FileInfo) fileJSON {
	e := info.Sys().(*protocol.FsEntry)
	return fileJSON{Path: p, Name: info.Name(), Kind: string(e.Kind), Mode: fmt.Sprintf("%04o", e.Mode), Size: info.Size(), Modified: info.ModTime().UTC(), Target: e.Target}
}

// modeText is a mode as ls(1) has it.
func modeText(m fs.FileMode) string {
	kind := "-"
	switch {
	case m.IsDir():
		kind = "d"
	case m&fs.ModeSymlink != 0:
		kind = "l"
	case !m.IsRegular():
		kind = "?"
	}
	text := []byte(kind + m.Perm().String()[1:])
	for _, special := range []struct {
		bit   fs.FileMode
		place int
		with  byte
		alone byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if m&special.bit == 0 {
			continue
		}
		if text[special.place] == 'x' {
			text[special.place] = special.with
		} else {
			text[special.place] = special.alone
		}
	}
	return string(text)
}
