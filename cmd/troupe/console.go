package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/webconsole"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

func newConsole(t *target.Flags) *cobra.Command {
	port, opens := uint16(0), false
	cmd := &cobra.Command{
		Use:   "console [flags]",
		Short: "Open the web console of a server in a browser",
		Long: `Serves the web console on this machine for any server that commands reach, and opens a browser on a desktop.
The page acts with your credentials for that server. Prints the address of the page: whoever opens it first
has the console, and the address works once. Ends with ^C.`,
		Example: `  troupe console
  troupe console --url wss://build.example.org:7766 --open=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			c, err := t.Control(ctx) // fails early if the target is wrong, and starts the user's own server
			if err != nil {
				return err
			}
			c.Close()
			if !cmd.Flags().Changed("open") {
				opens = onDesktop()
			}
			return serveConsole(ctx, cmd, t, port, opens)
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "serve the page at this `PORT` of 127.0.0.1; default: any")
	cmd.Flags().BoolVar(&opens, "open", false, "open a browser; default: on a desktop, if stdout is a terminal")
	return cmd
}

// serveConsole serves the console of a server until ctx ends.
func serveConsole(ctx context.Context, cmd *cobra.Command, t *target.Flags, port uint16, opens bool) error {
	login := newLogin()
	door := &auth.Door{Bearer: login}
	s, err := transport.Listen("ws://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), &transport.ServerOptions{
		Door:  door,
		Pages: webconsole.New(webconsole.Options{Door: door, Exchange: login.exchange, Refused: func(string, string) {}}),
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	// The page logs in by the fragment, as with the token of a share.
	url := webconsole.At(s.URL()) + "#share=" + login.once
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), url); err != nil {
		return err
	}
	if opens {
		remove, err := openPage(url)
		defer remove()
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "troupe: no browser was opened: %s\n", show.Harmless(err.Error()))
		}
	}
	return s.Serve(func(browser transport.Conn) { forward(ctx, browser, t) })
}

// A login checks the credential of the only browser of a console.
type login struct {
	browser string // the credential of the browser

	mu   sync.Mutex
	once string // the secret in the address of the page; "": a browser has used it
}

func newLogin() *login {
	return &login{browser: rand.Text() + rand.Text(), once: rand.Text() + rand.Text()}
}

// Check implements auth.Checker.
func (l *login) Check(token string, _ time.Time) (auth.Identity, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(l.browser)) != 1 {
		return auth.Identity{}, auth.ErrToken
	}
	return auth.Identity{Name: "you"}, nil
}

// exchange gives the credential of the browser to whoever first has the secret.
func (l *login) exchange(secret string) (credential string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.once == "" || subtle.ConstantTimeCompare([]byte(secret), []byte(l.once)) != 1 {
		return "", auth.ErrToken
	}
	l.once = ""
	return l.browser, nil
}

// forward joins the websocket of a browser with one of the server, until one of them ends.
func forward(ctx context.Context, browser transport.Conn, t *target.Flags) {
	server, err := t.Open(ctx, browser.Subprotocol())
	if err != nil {
		code := transport.CloseTryLater
		if refused, ok := errors.AsType[*transport.RefusedError](err); ok && refused.Status < 500 {
			code = transport.ClosePolicy
		}
		browser.Close(code, err.Error())
		return
	}
	if visitor, ok := browser.(interface{ Admit() }); ok {
		visitor.Admit()
	}
	defer context.AfterFunc(ctx, func() { browser.Close(transport.CloseGoingAway, "troupe console has ended") })()
	go carry(server, browser)
	carry(browser, server)
}

// carry copies messages, and ends both connections with the reason of the first end. A message is taken only after the last has been written: so a
// browser that does not read holds the server back, as without troupe between them.
func carry(from, to transport.Conn) {
	binary := from.Subprotocol() == transport.SubprotocolMsgpack
	for {
		message, err := from.ReadMessage()
		if err == nil {
			if err = to.WriteMessage(message, binary); err == nil {
				err = to.Flush()
			}
		}
		if err != nil {
			code, reason := closing(err)
			to.Close(code, reason)
			from.Close(code, reason)
			return
		}
	}
}

// closing returns the Close frame that passes an end on.
func closing(err error) (code int, reason string) {
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed.Code, closed.Reason
	}
	if err == io.EOF {
		return transport.CloseNormal, ""
	}
	return transport.CloseTryLater, "the connection to the server broke: connect again"
}

// onDesktop reports whether a person sees the browser that this command opens.
func onDesktop() bool {
	if !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("SSH_CONNECTION") != "" {
		return false
	}
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// openPage opens a page in the browser of the user. Other users see the arguments of programs, so on Unix a file of mode 0600 leads to
// the address. remove removes the file.
func openPage(url string) (remove func(), err error) {
	remove = func() {}
	program := map[string][]string{"windows": {"rundll32", "url.dll,FileProtocolHandler"}, "darwin": {"open"}}[runtime.GOOS]
	if program == nil {
		program = []string{"xdg-open"}
	}
	if runtime.GOOS != "windows" {
		dir, err := target.StateDir(os.Getenv)
		if err != nil {
			return remove, err
		}
		page := filepath.Join(dir, fmt.Sprintf("console-%d.html", os.Getpid()))
		text := `<!doctype html><meta http-equiv="refresh" content="0; url=` + html.EscapeString(url) + `"><a href="` + html.EscapeString(url) + `">the console</a>`
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			return remove, err
		}
		remove = func() { os.Remove(page) }
		url = page
	}
	opener := exec.Command(program[0], append(program[1:], url)...)
	if err := opener.Start(); err != nil {
		return remove, err
	}
	go opener.Wait()
	return remove, nil
}
