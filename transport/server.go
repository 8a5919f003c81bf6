package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
	"github.com/gorilla/websocket"
)

const (
	maxHeaderBytes = 16 << 10
	maxRelayHeader = 1 << 20 // with all identities that a client may observe

	// A server's connection keeps these buffers for its whole life. They are small because most
	// connections are idle and large messages bypass them: ReadMessage reads into an assembly, and
	// writeAll uses writev. A shared pool of write buffers would save 512 bytes of each connection, and cost its lock for every frame.
	serverReadBuffer  = 1 << 10
	serverWriteBuffer = 512
)

// ServerOptions may be nil, and are useful at zero. A number or duration of zero or
// below means its default.
type ServerOptions struct {
	// AllowOrigins are the values of the Origin header that the server accepts, beside its own if it has Pages. The server
	// refuses all other origins: browsers send the header, programs do not.
	AllowOrigins []string

	// Pages are served beside the websocket. Nil: there are none.
	Pages *Pages

	// Door decides who may connect. /healthz and /readyz need no credential. With Framed, the bearer token is
	// the member token of initialize. Nil: everybody may connect.
	Door *auth.Door

	// MaxConnections bounds the connections with a session. MaxConnectionsEach bounds the connections
	// of an identity (without credentials: of an address), and MaxConnectionsEachAddress the connections
	// of an address whatever the identity. An address is an IPv4 address, the /64 network of an IPv6
	// address, or the user at a unix socket. Beyond a limit, the server answers with HTTP 503, and
	// closes frames. 0 means no limit.
	MaxConnections, MaxConnectionsEach, MaxConnectionsEachAddress int

	// Elsewhere returns how many connections a client has to the other nodes of a cluster, as they report them by Server.Accounts. They count for
	// MaxConnectionsEach. Any goroutine may call Elsewhere, which must not block. Nil: there is no cluster.
	Elsewhere func(client string) int

	// TLS is the configuration of a server at wss://IP:PORT, and is for no other address.
	TLS *tls.Config

	// Insecure allows an address that other machines can reach although Door is nil: whoever reaches
	// the address can run programs here.
	Insecure bool

	// Ready answers /readyz. Any goroutine may call Ready. Nil: always ready.
	Ready func() bool

	MaxFrame     int           // bytes of payload in a websocket frame; DefaultMaxFrame
	MaxMessage   int           // bytes; DefaultMaxMessage
	WriteTimeout time.Duration // the time in which the kernel must take a message; DefaultWriteTimeout
	PingEvery    time.Duration // DefaultPingEvery
	DeadAfter    time.Duration // of silence; more than PingEvery; DefaultDeadAfter
	CheckEvery   time.Duration // the time between two looks at the credentials of open connections; DefaultCheckEvery

	// Subprotocols are in order of preference. The server picks the first that the client also offers.
	// Nil: SubprotocolMsgpack, SubprotocolJSON.
	Subprotocols []string

	// Framed makes the server accept length-prefixed frames (see Frames) instead of websockets, on a
	// unix socket only. The server then speaks no HTTP, and the options about websockets and HTTP have
	// no effect.
	Framed bool

	// Memory is called for each connection and returns the account for its messages. Nil: the memory of
	// all messages together is not bounded.
	Memory func() Memory

	// Refused is called for each client that is turned away: without a right credential, with a wrong
	// certificate, with a wrong Origin, or above a limit. Any goroutine may call Refused, which must not block. Nil: nobody is told.
	Refused func(by RefusedBy, remote, reason string)

	// Kept has the open sockets, by the names from Server.Socket, of a server whose process was killed. Listen goes on with the socket of its
	// own address, and with the connections that nobody has accepted yet. Listen closes all of Kept.
	Kept map[string]*os.File

	// Relays makes each websocket a Relayable.
	Relays bool

	// Relay makes the server one for other servers. Door does not count then. Nil: clients connect.
	Relay *Relay

	// Given is an open socket of a service manager. Listen serves this socket, if it has the address of the server. The file of a unix socket is not
	// the server's to remove. Listen closes Given, and Check does not. Nil: there is none.
	Given *os.File

	Log *slog.Logger // nil: nothing is logged
}

// RefusedBy says what has turned a client away.
type RefusedBy string

// What has turned a client away.
const (
	ByCredential RefusedBy = "credential" // none, a wrong one, or one that cannot be checked now
	ByLimit      RefusedBy = "limit"
	ByOrigin     RefusedBy = "origin" // of a web page
	ByTLS        RefusedBy = "tls"    // in the handshake
)

// A Server listens at an address and makes a Conn of each websocket or connection of frames.
type Server struct {
	url      string
	framed   bool
	listener wireListener
	handler  *handler
	http     http.Server
	close    func() error
}

// Listen listens at ws://IP:PORT, wss://IP:PORT or unix://PATH. Port 0 means any free port. Listen
// replaces a socket file at which no server listens. The first line of an error is exec-server's, if
// exec-server has one.
func Listen(url string, o *ServerOptions) (*Server, error) {
	if o == nil {
		o = &ServerOptions{}
	}
	defer func() {
		for _, f := range o.Kept {
			f.Close()
		}
		o.Given.Close() // nil has an error
	}()
	if err := checkAddress(url, o); err != nil {
		return nil, err
	}
	unix := strings.HasPrefix(url, "unix://")
	l, shown, err := listen(url, o)
	if err != nil {
		return nil, err
	}
	if o.Framed {
		shown = framedScheme + strings.TrimPrefix(shown, "unix://")
	}
	s := &Server{
		url:     shown,
		framed:  o.Framed,
		handler: newHandler(o, unix),
	}
	s.listener = wireListener{l, o.TLS, s.handler.visitors, s.handler.refused}
	s.http = http.Server{
		Handler:                      s.handler,
		ReadTimeout:                  DefaultHandshakeTimeout, // also for the first byte, and between requests
		WriteTimeout:                 DefaultHandshakeTimeout,
		MaxHeaderBytes:               s.handler.maxHeader(),
		DisableGeneralOptionsHandler: true, // the general handler would answer before ServeHTTP checks Origin
		ConnState:                    connState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, wireKey{}, c)
		},
	}
	s.http.ErrorLog = slog.NewLogLogger(s.handler.log.Handler(), slog.LevelWarn)
	s.close = sync.OnceValue(func() error {
		close(s.handler.visitors.closed)
		return errors.Join(s.http.Close(), notClosed(l.Close())) // http.Server closes l only if Serve was called
	})
	return s, nil
}

func notClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// A socket is a listener that can be kept for another process.
type socket struct {
	net.Listener
	name string // the address that was asked for, and of a unix socket its file
}

// Socket calls keep with the descriptor of the open socket, and with a name for ServerOptions.Kept. The descriptor is open until keep returns.
func (s *Server) Socket(keep func(name string, fd int) error) error {
	l := s.listener.Listener.(*socket)
	raw, err := l.Listener.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = keep(l.name, int(fd)) })
	return cmp.Or(err, failed)
}

// takeUp returns the listener of a kept socket; nil: there is none of this name.
func takeUp(kept map[string]*os.File, name string) (net.Listener, error) {
	f := kept[name]
	if f == nil {
		return nil, nil
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("go on with the open socket of %s: %w", name, err)
	}
	return l, nil
}

// Check returns why no server with these options may listen at url, wherever the system stands. Check opens nothing.
func Check(url string, o *ServerOptions) error {
	if err := checkAddress(url, o); err != nil || o.Given == nil {
		return err
	}
	l, _, err := takeGiven(url, o)
	if err != nil {
		return err
	}
	return l.Close()
}

// checkAddress is Check, without a look at the socket of a service manager.
func checkAddress(url string, o *ServerOptions) error {
	path, unix := strings.CutPrefix(url, "unix://")
	if o.Framed && !unix {
		return fmt.Errorf("length-prefixed frames are for unix sockets and stdio, not for %q: listen at unix://PATH, or leave the framing out", url)
	}
	if strings.HasPrefix(url, "wss://") != (o.TLS != nil) {
		return fmt.Errorf("a certificate and its key are for wss://IP:PORT, and needed there; the address is %q", url)
	}
	if unix && path != "" {
		return nil
	}
	scheme, host, _ := strings.Cut(url, "://")
	if scheme != "ws" && scheme != "wss" {
		return fmt.Errorf("unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio`\nwss://IP:PORT with a certificate and unix://PATH are possible, too", url)
	}
	addr, err := netip.ParseAddrPort(host)
	if err != nil {
		return fmt.Errorf("invalid websocket --listen URL `%s`; expected `ws://IP:PORT`\nit has no names, because a name can mean any address: %w", url, err)
	}
	if !o.Insecure && o.Door == nil && o.Relay == nil && !addr.Addr().IsLoopback() {
		return fmt.Errorf("refusing to start non-loopback websocket listener %s without auth; configure `--ws-auth capability-token` or `--ws-auth signed-bearer-token`\nwhoever reaches %s could run programs here: ask for credentials (troupe serve -h), choose a loopback address, or allow it with --insecure", addr, url)
	}
	return nil
}

// listen listens at an address that checkAddress has accepted.
func listen(url string, o *ServerOptions) (_ *socket, shown string, err error) {
	if o.Given != nil {
		return takeGiven(url, o)
	}
	kept := o.Kept
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		if path, err = filepath.Abs(path); err != nil {
			return nil, "", fmt.Errorf("listen at %s: %w", url, err)
		}
		l, err := listenUnix(path, kept)
		return l, "unix://" + path, err
	}
	scheme, host, _ := strings.Cut(url, "://")
	l, err := takeUp(kept, url)
	if l == nil && err == nil {
		l, err = net.Listen("tcp", host)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		//lint:ignore ST1005 the first line is the peer's text
		return nil, "", fmt.Errorf("Address in use (os error %d)\nlisten at %s: another program listens there; choose another port, or 0 for any: %w", syscall.EADDRINUSE, url, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("listen at %s: %w", url, err)
	}
	return &socket{l, url}, scheme + "://" + l.Addr().String(), nil
}

// maxSocketPath is in bytes. The kernel requires a zero byte after the path.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// ListenUnix listens at the path of a unix socket that only its user can open, and replaces a file at which nobody listens. Closing the listener removes
// the file.
func ListenUnix(path string) (net.Listener, error) { return listenUnix(path, nil) }

func listenUnix(path string, kept map[string]*os.File) (*socket, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s is %d bytes long; at most %d are possible", path, len(path), maxSocketPath)
	}
	if own, err := os.Lstat(path); err == nil {
		name := unixName(path, own)
		l, err := takeUp(kept, name)
		if err != nil {
			return nil, err
		}
		if l, ok := l.(*net.UnixListener); ok {
			return &socket{&unixListener{UnixListener: l, path: path, own: own}, name}, nil
		}
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// On Linux the file gets the mode of the socket when the socket is bound, so other users can never
	// connect. On other systems Chmod below changes the mode afterwards.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return c.Control(ownersOnly) }}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen at unix://%s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen at unix://%s: %w", path, err)
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	own, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("listen at unix://%s: %w", path, err)
	}
	return &socket{&unixListener{UnixListener: listener, path: path, own: own}, unixName(path, own)}, nil
}

// A unixListener removes its socket file when it is closed. Another server may listen at the path by then, because
// somebody has removed the file: the file of that server stays.
type unixListener struct {
	*net.UnixListener
	path   string
	own    fs.FileInfo
	closed sync.Once
}

func (l *unixListener) Close() error {
	l.closed.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.own) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// removeStale removes a socket file left behind by a killed server.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen at unix://%s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; choose another path, or remove it", path)
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("another server listens at unix://%s; stop it, or choose another path", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("cannot tell whether a server listens at unix://%s: %w", path, err)
	}
	return os.Remove(path)
}

// URL returns the address for clients, with the real port.
func (s *Server) URL() string { return s.url }

// Accounts returns how many connections each client has, by identity.Account or by address. Nil: MaxConnectionsEach is 0. Accounts looks at all clients.
func (s *Server) Accounts() map[string]int { return s.handler.visitors.accounts() }

// Serve calls accept for each connection on a new goroutine: for each websocket after its handshake, or
// for each connection of frames. Serve returns nil after Close, and may be called once.
//
// Until accept calls the method Admit of a connection, the connection is a stranger. The server closes
// a stranger that sends no message for 10 s, and closes older strangers to make room for newer ones.
func (s *Server) Serve(accept func(Conn)) error {
	if s.framed {
		return s.serveFrames(accept)
	}
	s.handler.accept = accept
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", s.url, err)
}

// Close stops listening and removes the socket file. Accepted connections stay open. Any goroutine may
// call Close any number of times.
func (s *Server) Close() error { return s.close() }

// A wireListener accepts wires, so that gorilla's hijacked connection is a wire. Each wire has a visitor.
type wireListener struct {
	net.Listener
	tls      *tls.Config // nil: no TLS
	visitors *visitors
	refused  func(by RefusedBy, remote, reason string)
}

func (l wireListener) Accept() (net.Conn, error) {
	c, v, err := l.accept()
	if err != nil {
		return nil, err
	}
	w, err := newServerWire(c)
	if err != nil {
		c.Close()
		v.leave()
		return nil, err
	}
	w.visitor = v
	if l.tls != nil {
		return newTLSWire(w, l.tls, l.refused)
	}
	return w, nil
}

// accept accepts a connection and then waits for a place in the lobby.
func (l wireListener) accept() (net.Conn, *visitor, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, nil, err
	}
	v := l.visitors.enter(c)
	if v == nil { // http.Server.Close ends unfinished handshakes only after accept has returned
		c.Close()
		return nil, nil, net.ErrClosed
	}
	return c, v, nil
}

// connState tells the lobby how far HTTP has come with a connection.
func connState(c net.Conn, state http.ConnState) {
	v := c.(wire).state().visitor
	switch state {
	case http.StateActive: // the first byte has come
		v.comes(asking)
	case http.StateHijacked:
		v.comes(listening)
	case http.StateClosed:
		v.leave()
	}
}

// wireKey is the key of the wire in the context of a request.
type wireKey struct{}

// A handler answers HTTP. Source: exec-server wire §1.
type handler struct {
	unix     bool
	origins  []string
	pages    *Pages
	visitors *visitors
	log      *slog.Logger
	ready    func() bool
	upgrader websocket.Upgrader
	settings settings
	relays   bool
	relay    *Relay
	refused  func(by RefusedBy, remote, reason string)
	accept   func(Conn)
}

func newHandler(o *ServerOptions, unix bool) *handler {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	subprotocols := o.Subprotocols
	if subprotocols == nil {
		subprotocols = []string{SubprotocolMsgpack, SubprotocolJSON}
	}
	refused := o.Refused
	if refused == nil {
		refused = func(RefusedBy, string, string) {}
	}
	return &handler{
		refused:  refused,
		relays:   o.Relays,
		relay:    o.Relay,
		unix:     unix,
		origins:  o.AllowOrigins,
		pages:    o.Pages,
		visitors: newVisitors(o),
		log:      log,
		ready:    o.Ready,
		upgrader: websocket.Upgrader{
			HandshakeTimeout: DefaultHandshakeTimeout,
			ReadBufferSize:   serverReadBuffer,
			WriteBufferSize:  serverWriteBuffer,
			Subprotocols:     subprotocols,
			Error:            refuse,
			CheckOrigin:      func(*http.Request) bool { return true }, // ServeHTTP has checked Origin
		},
		settings: settings{
			maxFrame:     orDefault(o.MaxFrame, DefaultMaxFrame),
			maxMessage:   orDefault(o.MaxMessage, DefaultMaxMessage),
			writeTimeout: orDefault(o.WriteTimeout, DefaultWriteTimeout),
			pingEvery:    orDefault(o.PingEvery, DefaultPingEvery),
			deadAfter:    orDefault(o.DeadAfter, DefaultDeadAfter),
			pace:         paceTime,
			memory:       o.Memory,
		},
	}
}

// maxHeader is the size of the largest head of a request, in bytes.
func (h *handler) maxHeader() int {
	if h.relay != nil {
		return maxRelayHeader
	}
	return maxHeaderBytes
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.foreign(w, r) {
		return
	}
	switch path := r.URL.Path; {
	case h.relay != nil && path != "/":
		h.relay.Other(w, r, r.Context().Value(wireKey{}).(wire).tlsState())
	case path == "/" && !websocket.IsWebSocketUpgrade(r) && h.page(w, r):
	case path == "/", path == "/rpc" && h.unix: // app-server's clients ask for /rpc on a unix socket
		h.upgrade(w, r)
	case path == "/healthz":
		probe(w, r, true)
	case path == "/readyz":
		probe(w, r, h.ready == nil || h.ready())
	case h.page(w, r):
	default:
		http.Error(w, "nothing is here: the websocket is at /; /healthz and /readyz answer plain HTTP", http.StatusNotFound)
	}
}

func probe(w http.ResponseWriter, r *http.Request, ok bool) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
	case !ok:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (h *handler) upgrade(w http.ResponseWriter, r *http.Request) {
	if !websocket.IsWebSocketUpgrade(r) {
		http.Error(w, "this is a websocket: open it with a websocket client; /healthz and /readyz answer plain HTTP", http.StatusBadRequest)
		return
	}
	wire := r.Context().Value(wireKey{}).(wire)
	v, shown := wire.state().visitor, auth.Visitor{Header: h.credential(r), TLS: wire.tlsState()}
	remote := ""
	if h.relay != nil {
		about, name, err := h.relay.Client(r, wire.tlsState())
		if err != nil {
			h.refused(ByCredential, name, err.Error())
			turnAway(w, err)
			return
		}
		v.relayed, v.identity, remote = &about, about.Identity, name
	} else if err := h.receive(wire, v, &shown); err != nil {
		turnAway(w, err)
		return
	}
	ws, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		v.unseat()
		return // Upgrade has answered the request
	}
	c, err := newWebSocket(ws, wire, h.settings)
	if err != nil {
		ws.Close()
		return
	}
	if remote != "" {
		c.remote = remote
	}
	wire.state().record.on = h.relays
	v.shows(shown, func(err error) { h.expel(c, v, err) })
	v.opens(func(reason string) { c.end(CloseTryLater, reason, false) }, func() { c.keeping.Reset(0) })
	go h.accept(c) // on a new goroutine, so that HTTP frees its buffers when ServeHTTP returns
}

// receive finds out who is at the other end of c, and gives v its place. receive completes shown: the kernel says which user it is.
func (h *handler) receive(c net.Conn, v *visitor, shown *auth.Visitor) error {
	var id auth.Identity
	var err error
	if door := h.visitors.door; door != nil {
		if uid, ok := userOf(c); ok {
			shown.UID = &uid
		}
		id, err = door.Identify(*shown, time.Now())
	}
	if err == nil {
		err = v.seat(id, time.Now())
	}
	if err != nil {
		h.log.Info("refused a connection", "remote", name(c), "reason", err)
		by := ByCredential
		if _, full := errors.AsType[*fullError](err); full {
			by = ByLimit
		}
		h.refused(by, name(c), err.Error())
	}
	return err
}

// expel ends a connection whose credential is no longer right. Its session lives on.
func (h *handler) expel(c interface {
	Conn
	expel(error)
}, v *visitor, err error) {
	h.log.Info("ended a connection", "remote", c.RemoteAddr(), "identity", v.identity.Name, "reason", err)
	go c.expel(fmt.Errorf("the credential is no longer right: %w", err))
}

// turnAway answers a client that may not connect. (exec-server wire §1.)
func turnAway(w http.ResponseWriter, err error) {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		http.Error(w, refused.Text, refused.Status)
		return
	}
	if _, ok := errors.AsType[*auth.Refusal](err); ok {
		w.Header().Set("WWW-Authenticate", "Bearer") // RFC 9110 §11.6.1
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, busy(err), http.StatusServiceUnavailable)
}

// busy says why a client whose credential is not wrong may not connect now.
func busy(err error) string {
	if full, ok := errors.AsType[*fullError](err); ok {
		return full.Error()
	}
	return "the server cannot check credentials at present, its log says why: try again"
}

func refuse(w http.ResponseWriter, _ *http.Request, status int, reason error) {
	w.Header().Set("Sec-WebSocket-Version", "13")
	http.Error(w, reason.Error(), status)
}
