//go:build unix

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/admin"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/settings"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/webconsole"
	"github.com/b6f6fdd7/troupe/internal/loglevel"
	"github.com/b6f6fdd7/troupe/internal/sdnotify"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// serveOptions are the flags of troupe serve.
type serveOptions struct {
	listen       string
	framing      string
	insecure     bool
	allowOrigins []string
	console      bool
	containment  string
	credentials  credentialFlags
	audit        auditFlags
	users        string
	policy       string
	log          logFlags
	operate      operateFlags
	trace        traceFlags
	cluster      clusterFlags
	exitWhenIdle time.Duration // 0: never
	// As the options of transport.ServerOptions with these names.
	maxConnectionsEach, maxConnectionsEachAddress int
	config                                        actors.Config

	// By newServe.
	settings *settings.InForce
	given    *os.File // the socket of a service manager; nil: there is none
}

func (o *serveOptions) stdio() bool { return o.listen == "stdio" || o.listen == "stdio://" }

// newServe returns the command troupe serve. It exits with 0 after a drain, with 1 if the server could not
// serve, and with 2 for wrong flags.
func newServe() *cobra.Command {
	o := new(serveOptions)
	source := o.source()
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve clients over a websocket, a unix socket or stdio",
		Example: `  troupe serve
  troupe serve --listen wss://0.0.0.0:7766 --tls-cert cert.pem --tls-key key.pem --auth-token-file tokens
  troupe serve --config /etc/troupe/serve.yaml --check-config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"url", "server", "tls-ca"} {
				if cmd.Flags().Changed(name) {
					return wrong("--%s is for clients: say with --listen where to serve", name)
				}
			}
			if f := cmd.Flags().Lookup(source.File); f.Changed && f.Value.String() == "" {
				return wrong("--%s names no file", f.Name)
			}
			held, err := hold.Attach()
			if err != nil {
				return err
			}
			manages := []int{os.Getpid()} // to whom a service manager passes a socket
			if held != nil || hold.Trial() {
				manages = append(manages, os.Getppid())
			}
			if o.given, err = sdnotify.Socket(manages...); err != nil {
				return err
			}
			source.Kept = held.Settings()
			if o.settings, err = source.Complete(os.Environ()); err != nil {
				return usageError{err}
			}
			if yes, _ := cmd.Flags().GetBool(hold.Show); yes {
				o.settings.Show(cmd.OutOrStdout())
				return nil
			}
			if err := o.settings.Locate(o.check()); err != nil {
				return usageError{err}
			}
			checks, _ := cmd.Flags().GetBool(hold.Check)
			if checks || hold.Trial() {
				err := o.settings.Locate(o.tryOpen())
				if err == nil && !checks {
					hold.Passed()
				}
				return err
			}
			return serve(o, held)
		},
	}
	for _, s := range source.Sections {
		cmd.Flags().AddFlagSet(s.FlagSet)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd.OutOrStdout(), source.Sections) })
	return cmd
}

// check returns an error if the flags contradict each other, and completes the options.
func (o *serveOptions) check() error {
	if err := cmp.Or(o.audit.check(), o.checkLimits(), o.log.check(), o.operate.check(), o.trace.check(), o.cluster.check()); err != nil {
		return err
	}
	if at := o.settings.FromFile("listen"); at != "" && o.stdio() {
		return fmt.Errorf("%s: listen: a server on stdio is told so by --listen %s, because the holder starts before the file is read", at, o.listen)
	}
	if o.cluster.members != "" && o.stdio() {
		return errors.New("--cluster is for a server that listens at an address: on stdio there is one client, and nobody can resume its session")
	}
	if o.given != nil && o.stdio() {
		return errors.New("--listen stdio is for a server without a socket, and the service manager has passed one: name the address of the socket unit, or disable the socket unit")
	}
	switch {
	case o.framing == "lines" && !o.stdio():
		return fmt.Errorf("--framing lines is for --listen stdio, not for %s", o.listen)
	case o.framing == "length" && !o.stdio() && !strings.HasPrefix(o.listen, "unix://"):
		return fmt.Errorf("--framing length is for --listen stdio and unix://PATH, not for %s: a websocket has frames of its own", o.listen)
	case o.framing != "" && o.framing != "lines" && o.framing != "length":
		return fmt.Errorf("--framing %q: choose lines or length", o.framing)
	}
	if o.console && (o.stdio() || o.framing == "length") {
		return errors.New("--console is for a server of websockets: it is a page for browsers, which speak neither to stdio nor in length-prefixed frames")
	}
	if o.credentials.oidc.Issuer != "" && !o.console {
		return errors.New("--console-oidc-issuer is for a server with --console")
	}
	switch {
	case o.exitWhenIdle < 0 || o.exitWhenIdle > 0 && o.exitWhenIdle < time.Millisecond:
		return fmt.Errorf("--exit-when-idle %v: choose 1ms or more, or 0 to serve until a signal comes", o.exitWhenIdle)
	case o.exitWhenIdle > 0 && o.cluster.members != "":
		return errors.New("--exit-when-idle is for a server that is alone: a node without sessions may be the gateway of clients")
	case o.exitWhenIdle > 0 && o.stdio():
		return errors.New("--exit-when-idle is for a server that listens at an address: on stdio the server ends with its input")
	}
	for _, origin := range o.allowOrigins {
		if u, err := url.Parse(origin); origin != "null" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			return fmt.Errorf("--allow-origin %q: an origin is SCHEME://HOST or SCHEME://HOST:PORT, as in https://example.org", origin)
		}
	}
	switch c := child.Containment(o.containment); c {
	case "auto":
	case child.ContainCgroup, child.ContainMarker, child.ContainGroup:
		o.config.Containment = c
	default:
		return fmt.Errorf("--containment %q: choose auto, cgroup, marker or group", o.containment)
	}
	o.config.Version = version()
	o.config.Subreaper = true // the whole process belongs to the server
	return nil
}

// secretFiles returns the files with which a program could do more than its sandbox permits, through this server, and the record.
func (o *serveOptions) secretFiles() (all []string) {
	socket, _ := strings.CutPrefix(o.listen, "unix://")
	if socket == o.listen {
		socket = ""
	}
	// With a writable /tmp, a program could also change the directory of the user's own server.
	for _, path := range append([]string{target.Dir(os.Getenv), o.settings.Path(), o.users, o.policy, o.config.StateDir, socket, o.operate.path(), o.audit.file(), o.cluster.files.Key, o.cluster.files.CA, o.cluster.files.Revoked}, o.credentials.files()...) {
		if path == "" {
			continue
		}
		// Not filepath.Abs, which takes LINK/.. for the directory of LINK: the server opens the directory above LINK's target.
		if !filepath.IsAbs(path) {
			dir, err := os.Getwd()
			if err != nil {
				continue
			}
			path = dir + "/" + path
		}
		all = append(all, path)
	}
	return all
}

// tryOpen says why a server with these options would not serve, as far as that is known before: a port may be taken.
func (o *serveOptions) tryOpen() error {
	door, tlsConfig, err := o.open(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if !o.stdio() {
		err = transport.Check(o.listen, &transport.ServerOptions{Insecure: o.insecure, Door: door, TLS: tlsConfig, Framed: o.framing == "length", Given: o.given})
	}
	if err == nil && o.cluster.members != "" {
		_, err = o.cluster.open(o, nil, slog.New(slog.DiscardHandler), nil, nil)
	}
	return cmp.Or(err, actors.Check(o.config), o.audit.mayOpen())
}

// open opens the files of the options, and says what is wrong with them.
func (o *serveOptions) open(log *slog.Logger) (*auth.Door, *tls.Config, error) {
	door, tlsConfig, err := o.credentials.open(o.listen, log)
	if err != nil {
		return nil, nil, err
	}
	if o.users != "" {
		users, err := auth.OpenUsers(o.users)
		if err != nil {
			return nil, nil, fmt.Errorf("--users-file: %w", err)
		}
		o.config.Users = users.Of
	}
	if path := o.settings.Path(); target.OthersMay(0o002, path) {
		log.Warn("other users of this machine can change the settings: chmod o-w FILE", "file", path)
	}
	if dir := o.config.SpoolDir; dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, nil, fmt.Errorf("--spool-dir %s: there is no such directory: make it, or name another", dir)
		}
	}
	if o.policy != "" {
		if o.config.Rules, err = config.OpenRules(o.policy, log); err != nil {
			return nil, nil, fmt.Errorf("--policy-file: %w", err)
		}
	}
	return door, tlsConfig, nil
}

// lostTime is how long a server without its holder has for telling its clients. The kernel has killed the programs.
const lostTime = 5 * time.Second

// serve serves until SIGTERM or SIGINT, or on stdio until SIGHUP or the end of stdin, and then drains. A
// second signal ends the drain: the server kills the remaining programs. The end of a terminal (SIGHUP) is not the end of
// a server with an address, because its clients may be anywhere. held is nil for a server without a holder.
func serve(o *serveOptions, held *hold.Server) (err error) {
	levels := new(loglevel.Levels)
	o.config.Log = o.log.open(os.Stderr, levels)
	if held.First() {
		collect()
	} else { // clients wait for this server, and what it makes until they are back is no garbage
		debug.SetGCPercent(-1)
	}
	log := o.config.Log
	stops := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if o.stdio() && !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	} else {
		// The server catches SIGHUP, also if nohup(1) ignores it: an ignored signal stays ignored after execve(2), and programs
		// would inherit that. A caught signal returns to its default. With a holder, SIGHUP to the holder is for the next server.
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		if held == nil && o.settings.Text() != nil {
			go func() {
				for range hangups {
					o.readAgain(levels)
				}
			}()
		}
	}
	manager, err := sdnotify.Take() // with a holder, the holder has taken it
	if err != nil {
		log.Error("no service manager", "err", err)
	}
	tell := func(line string) {
		if err := manager.Tell(line); err != nil {
			log.Error("no service manager", "err", err)
		}
	}
	ends := func() {
		held.Stops()
		tell(sdnotify.Stopping)
	}
	stop, again := stopRequests(stops, held.Requests(), held.Gone())

	var server *transport.Server
	var troupe *actors.Troupe // set before server serves
	door, tlsConfig, err := o.open(log)
	if err != nil {
		return err
	}
	record, err := o.audit.open(log)
	if err != nil {
		return err
	}
	o.config.Audit = record
	if door != nil {
		o.config.Shares = door.Shares
	}
	refused := func(by transport.RefusedBy, remote, reason string) {
		record.Refused(remote, reason)
		troupe.CountRefused(string(by))
	}
	memory := func() transport.Memory { return troupe.Memory() }
	var pages *transport.Pages
	if o.console {
		pages = webconsole.New(webconsole.Options{
			Door: door, SSO: o.credentials.provider,
			Refused: func(remote, reason string) {
				log.Info("refused a browser", "remote", remote, "reason", reason)
				refused(transport.ByCredential, remote, reason)
			},
			Failed: func(what string, err error) { log.Error("nobody can log in", "by", what, "err", err) },
		})
	}
	node, err := o.cluster.open(o, held, log, func() map[string]int {
		if server == nil {
			return nil
		}
		return server.Accounts()
	}, func(t *transport.ServerOptions) { t.Refused, t.Memory = refused, memory })
	if err != nil {
		return err
	}
	var connectionsElsewhere func(client string) int
	if node != nil {
		o.config.Cluster = node
		o.config.Elsewhere = node.Elsewhere
		connectionsElsewhere = func(client string) int { return node.Elsewhere(client).Connections }
	}
	if !o.stdio() {
		s, err := transport.Listen(o.listen, &transport.ServerOptions{
			AllowOrigins: o.allowOrigins,
			Pages:        pages,
			Insecure:     o.insecure,
			Door:         door,

			MaxConnections:            o.config.MaxConnections,
			MaxConnectionsEach:        o.maxConnectionsEach,
			MaxConnectionsEachAddress: o.maxConnectionsEachAddress,
			Elsewhere:                 connectionsElsewhere,

			TLS:     tlsConfig,
			Framed:  o.framing == "length",
			Ready:   func() bool { return stop.Err() == nil && troupe.Drained().IsZero() },
			Refused: refused,
			Memory:  memory,
			Kept:    o.cluster.others(held.Sockets()),
			Given:   o.given,
			Relays:  node != nil,
			Log:     log,
		})
		if err != nil {
			return err
		}
		defer s.Close()
		if o.given == nil { // else the holder has the socket, and each server inherits it
			if err := s.Socket(held.KeepSocket); err != nil {
				return err
			}
		}
		server = s
	}
	if err := child.SealFiles(); err != nil {
		log.Warn("programs inherit descriptors that were open when the server was started", "err", err)
	}
	soft, hard, err := child.RaiseNoFile()
	if err != nil {
		log.Warn("file descriptors are not raised to their limit", "soft", soft, "hard", hard, "err", err)
	}
	if err := hide(); err != nil {
		log.Warn("programs can read the server's environment and memory", "err", err)
	}
	makeThreads(threadsInHand)
	if o.config.StateDir, err = target.StateDir(os.Getenv); err != nil {
		log.Info("if this server is killed, the placeholders of its sandboxes stay until the next sandbox of the same directory", "reason", err)
	}
	o.config.Hidden = o.secretFiles()
	o.config.AboutHolder = o.aboutHolder(held)
	if lacks := hold.Lacks(); held == nil && lacks != nil && !o.stdio() {
		log.Warn("programs end with this server: no holder", "reason", lacks)
	}
	tracer, traced := o.trace.open(o.config.Version, log)
	defer traced()
	o.config.Tracer = tracer
	if held != nil {
		o.config.Holder, o.config.Found = held.Keeper.(child.Holder), held.Found
	}
	troupe, err = actors.Start(newSystem(log), o.config)
	if err != nil {
		return err
	}
	if node != nil {
		if err := node.Join(troupe); err != nil {
			return errors.Join(err, troupe.Kill())
		}
		defer node.Leave()
		if err := node.Socket(held.KeepSocket); err != nil {
			return errors.Join(err, troupe.Kill())
		}
	}
	held.DropSockets()
	listen := o.listen
	if server != nil {
		listen = server.URL()
	}
	operation, err := o.operate.open(&admin.Server{
		Troupe: troupe, Levels: levels, Log: log,
		Stops:  func() bool { return stop.Err() != nil },
		Reload: func() (admin.Reloading, error) { return o.reload(held, levels) },
		Self:   admin.Self{URL: listen, PID: held.PID(), Version: o.config.Version},
	}, listen, held.First())
	if err != nil {
		return errors.Join(err, troupe.Kill())
	}
	defer operation.end()
	over, done := context.WithCancel(context.Background())
	defer done()
	go giveBack(over)
	o.audit.started(record, listen, string(troupe.Containment()))
	defer func() { o.audit.stopped(record, log, err) }()
	ready := func() {
		operation.serve(log) // what it tells of the holder is known by now
		if !held.First() {
			collectLater()
		}
		log.Info("ready", "containment", troupe.Containment(), "files", soft, "admin", operation.path)
		tell(sdnotify.Ready)
		if manager.Every() > 0 {
			go signs(over, manager.Every(), func() {
				troupe.RoundTrip()
				tell(sdnotify.Alive)
			})
		}
	}

	if server != nil {
		if held.First() { // whoever reads stdout may have what it wanted, and have closed a pipe
			fmt.Fprintln(stdout, server.URL())
			if term.IsTerminal(int(os.Stderr.Fd())) {
				fmt.Fprintf(os.Stderr, "in another terminal: troupe run --url %s -- sh\n", server.URL())
				if at := webconsole.At(server.URL()); at != "" && o.console {
					fmt.Fprintf(os.Stderr, "in a browser: %s\n", at)
				}
			}
		}
		last, gap := held.Serves()
		if text := o.settings.Text(); text != nil {
			held.KeepSettings(text, func(err error) {
				log.Error("after its death this server would come back with what its file says then", "err", err)
			})
		}
		if held.Settings() != nil && o.settings.Changed() {
			log.Warn("the file with the settings has changed, and this server goes on with the settings of the last: SIGHUP reads the file")
		}
		if last != "" {
			troupe.Replaced(replacement(held.State()))
		}
		served := make(chan error, 1)
		accept := func(c transport.Conn) { troupe.Accept(c, c.About()) }
		if node != nil {
			accept = node.Accept
		}
		go func() { served <- server.Serve(accept) }()
		go held.Answer(troupe.RoundTrip)
		ready()
		switch last {
		case "":
		case hold.Replaced:
			log.Info("serves after an upgrade", "version", o.config.Version, "gap", gap)
		default:
			log.Warn("serves in place of a server that died", "died", last, "gap", gap)
		}
		select {
		case <-stop.Done():
		case <-retired(stop, troupe, o.exitWhenIdle):
			log.Info("ends because it had nothing to do", "for", o.exitWhenIdle)
			ends()
			// Before the drain: a client that comes now finds no server, and may start another.
			return errors.Join(server.Close(), troupe.Shutdown(context.Background()))
		case <-troupe.Left():
			log.Info("ends because it was drained, and no session is left")
			ends()
			return errors.Join(server.Close(), troupe.Shutdown(context.Background()))
		case err := <-served:
			ends()
			return errors.Join(err, troupe.Shutdown(context.Background()))
		case <-held.Gone():
			log.Error("the holder has ended, and all programs end")
			told, cancel := context.WithTimeout(context.Background(), lostTime)
			defer cancel()
			return errors.Join(hold.ErrLost, troupe.Shutdown(told))
		}
		// The server still accepts connections during the drain: /readyz reports the drain, and a
		// client whose connection was cut may come back for the end of its output.
	} else {
		open := transport.Stdio
		if o.framing == "length" {
			open = transport.Frames
		}
		closed := make(chan struct{})
		stdio := open(os.Stdin, os.Stdout, &transport.StdioOptions{Closed: func() { close(closed) }})
		ready()
		troupe.Accept(stdio, stdio.About())
		select {
		case <-stop.Done():
		case <-closed: // the only session has ended, and nobody can resume it
			return troupe.Kill()
		}
	}

	ends()
	log.Info("draining", "grace", o.config.KillGrace)
	return troupe.Shutdown(again)
}

// reload has the holder start a server with the settings of now. Without a holder, reload reads them again.
func (o *serveOptions) reload(held *hold.Server, levels *loglevel.Levels) (going admin.Reloading, err error) {
	if held != nil {
		going.Text = "the holder starts a server with the settings and the binary of now: this server goes on if that one does not work"
		if _, err := o.again(); err != nil {
			going.Wrong = err.Error()
		}
		return going, held.Reload()
	}
	if o.settings.Text() == nil {
		return going, errors.New("there is nothing to read again: the server has no file with settings (--config), and without a holder it cannot be replaced")
	}
	going.Text, err = o.readAgain(levels)
	return going, err
}

// again returns the options by the settings of now, and says what is wrong with them.
func (o *serveOptions) again() (now *serveOptions, err error) {
	now = new(serveOptions)
	if now.settings, err = o.settings.Again(now.source(), os.Environ()); err == nil {
		err = now.settings.Locate(cmp.Or(now.check(), now.tryOpen()))
	}
	return now, err
}

// readAgain reads the settings of a server without a holder again. The log has the result, too.
func (o *serveOptions) readAgain(levels *loglevel.Levels) (text string, err error) {
	log := o.config.Log
	now, err := o.again()
	if err != nil {
		log.Error("the settings are wrong, and those from before stay in force", "err", err)
		return "", fmt.Errorf("the settings are wrong, and those from before stay in force: %w", err)
	}
	now.log.set(levels)
	waits := slices.DeleteFunc(o.settings.Differ(now.settings), func(name string) bool { return name == "verbose" || name == "log-level" })
	if len(waits) > 0 {
		log.Warn("settings have changed that wait for the next start: a server without a holder cannot be replaced", "settings", waits)
		return "settings have changed that wait for the next start, because a server without a holder cannot be replaced: " + strings.Join(waits, ", "), nil
	}
	log.Info("has read the settings again")
	return "the server has read the settings again", nil
}

// signs calls sign at once, and again after each time every, until ctx is done.
func signs(ctx context.Context, every time.Duration, sign func()) {
	for tick := time.Tick(every); ; {
		sign()
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// stopRequests catches signals, to the very end: a late signal must not turn success into failure. stop is done after the first signal,
// and again after the second, or when gone is closed. passed has the signals to the holder, gone is closed when the holder has ended; both
// are nil without a holder. A terminal and a service manager may send one signal to the holder and to the server. So the signals to the one
// and to the other do not add up.
func stopRequests(signals []os.Signal, passed <-chan os.Signal, gone <-chan struct{}) (stop, again context.Context) {
	stop, first := context.WithCancel(context.Background())
	again, second := context.WithCancel(context.Background())
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, signals...)
	go func() {
		toServer, toHolder := 0, 0
		for {
			select {
			case <-caught:
				toServer++
			case s := <-passed:
				if slices.Contains(signals, s) {
					toHolder++
				}
			case <-gone:
				second()
				return
			}
			if max(toServer, toHolder) > 0 {
				first()
			}
			if max(toServer, toHolder) > 1 {
				second()
			}
		}
	}()
	return stop, again
}

// retired returns a channel that is closed when the troupe has had nothing to do for idle, and refuses clients from
// then on. With idle 0 that never happens.
func retired(ctx context.Context, troupe *actors.Troupe, idle time.Duration) <-chan struct{} {
	over := make(chan struct{})
	if idle > 0 {
		go func() {
			if troupe.RetireWhenIdle(ctx, idle) == nil {
				close(over)
			}
		}()
	}
	return over
}

// newSystem returns an actor system that logs only warnings and errors.
func newSystem(log *slog.Logger) *actor.ActorSystem {
	quiet := slog.New(levelHandler{log.Handler(), slog.LevelWarn})
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterRequestLogging(false),
	)
	fewMaps(system)
	return system
}

// levelHandler passes on records of at least a given level. protoactor logs each start and each dead
// letter at Info.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}
func (h levelHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(a), h.level}
}
func (h levelHandler) WithGroup(n string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(n), h.level}
}

// embedded starts a server in this process, for troupe run without --url. user is the only user of its programs; "":
// the user of troupe.
func embedded(user string) (dial func(context.Context) (transport.Conn, error), shutdown func(), err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := actors.Config{Version: version(), Log: log, Subreaper: true}
	if user != "" {
		config.Users = func(string) ([]string, string, error) { return []string{user}, user, nil }
	}
	troupe, err := actors.Start(newSystem(log), config)
	if err != nil {
		return nil, nil, err
	}
	dial = func(context.Context) (transport.Conn, error) {
		ours, theirs := transport.Pipe(transport.SubprotocolMsgpack)
		troupe.Accept(theirs, theirs.About())
		return ours, nil
	}
	return dial, func() {
		if err := troupe.Kill(); err != nil {
			log.Error("shutdown", "err", err)
		}
	}, nil
}
