// Package target finds the server of a command, and connects to it.
//
// The first of these names the server: --url, --server, TROUPE_URL, the default of the config file. Without all of
// them, commands use the user's own server on this machine, and start the server when needed (local.go).
package target

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Flags are the flags for the server of a command, and for the way to the server.
type Flags struct {
	URL    string // --url
	Server string // --server: a name of the config file, or LocalName

	TLSCA, TLSCert, TLSKey string

	// Version is the version of this program. If the user's own server has another version, Dial calls Note.
	Version string
	// Note tells the person at the terminal something, a line without a newline. Nil: to stderr.
	Note func(string)

	// Quiet forbids questions and messages to a person: Dial does not run TokenCommand, and does not call Note.
	Quiet bool

	getenv   func(string) string // nil: os.Getenv
	program  []string            // the beginning of the command line for starting a server; nil: this program
	resolved *Target
}

// Register makes the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.URL, "url", "", "use the server at this `URL`: ws://HOST:PORT, wss://HOST:PORT, unix://PATH or unix+frames://PATH")
	fs.StringVar(&f.Server, "server", "", "use the `SERVER` with this name in the config file; "+LocalName+": your own on this machine")
	fs.StringVar(&f.TLSCA, "tls-ca", "", "trust the server certificates issued by the certificates in this PEM `FILE`; default: the system's")
	fs.StringVar(&f.TLSCert, "tls-cert", "", "PEM `FILE` with a certificate of this client")
	fs.StringVar(&f.TLSKey, "tls-key", "", "PEM `FILE` with the key of --tls-cert")
}

// Args returns the flags with which another command uses the same server.
func (f *Flags) Args() (args []string) {
	for _, flag := range []struct{ name, value string }{
		{"--url", f.URL}, {"--server", f.Server}, {"--tls-ca", f.TLSCA}, {"--tls-cert", f.TLSCert}, {"--tls-key", f.TLSKey},
	} {
		if flag.value != "" {
			args = append(args, flag.name, flag.value)
		}
	}
	return args
}

// For returns the flags for another server, by its URL or its name in the config file.
func (f *Flags) For(server string) *Flags {
	other := *f
	other.resolved = nil
	if other.URL, other.Server = server, ""; !strings.Contains(server, "://") {
		other.URL, other.Server = "", server
	}
	return &other
}

// A Target is a server, and the way to connect.
type Target struct {
	Name  string // in the config file, or LocalName; "": only the URL is known
	URL   string
	Local bool // the user's own server, to be started when needed
	From  string

	TLS   *tls.Config            // nil: the system's roots, and no certificate
	Token func() (string, error) // nil: no token is sent

	ca, cert, key string // the files of TLS; "": none
}

// String names the target for messages.
func (t *Target) String() string {
	if t.Local {
		return "your own server at " + t.URL
	}
	if t.Name != "" {
		return fmt.Sprintf("server %s at %s", t.Name, t.URL)
	}
	return t.URL
}

// Local reports whether the command uses the user's own server on this machine. If the choice of a server is invalid,
// Local returns false, and Dial returns the error.
func (f *Flags) Local() bool {
	t, err := f.Target()
	return err == nil && t.Local
}

// Target finds the server. Target reads the config file, and makes no connection.
func (f *Flags) Target() (*Target, error) {
	if f.resolved != nil {
		return f.resolved, nil
	}
	t, err := f.find()
	if err == nil {
		f.resolved = t
	}
	return t, err
}

func (f *Flags) find() (*Target, error) {
	env := f.env()
	if f.URL != "" && f.Server != "" {
		return nil, errors.New("--url and --server both name a server: leave one out")
	}
	named := func(c *Config, name, from string) (*Target, error) {
		if name == LocalName {
			return f.own(from)
		}
		s, err := c.Server(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		return f.target(name, s, from)
	}
	url, from := f.URL, "--url"
	if url == "" && f.Server == "" {
		url, from = env("TROUPE_URL"), "TROUPE_URL"
	}
	if url != "" {
		return f.target("", Server{URL: url}, from)
	}
	if f.Server == LocalName {
		return f.own("--server")
	}
	path := ConfigPath(env)
	c, err := ReadConfig(path, home(env))
	switch {
	case err != nil:
		return nil, err
	case f.Server != "":
		return named(c, f.Server, "--server")
	case c.Default != "":
		return named(c, c.Default, path)
	}
	return f.own("no other server is chosen")
}

// target returns the target of a server. Flags about TLS replace the TLS settings of the config file.
func (f *Flags) target(name string, s Server, from string) (*Target, error) {
	roots := cmp.Or(f.TLSCA, s.TLSCA)
	cert, key := s.TLSCert, s.TLSKey
	if f.TLSCert != "" || f.TLSKey != "" {
		cert, key = f.TLSCert, f.TLSKey
	}
	config, err := clientTLS(roots, cert, key)
	if err != nil {
		return nil, err
	}
	return &Target{Name: name, URL: s.URL, From: from, TLS: config, Token: f.token(name, s), ca: roots, cert: cert, key: key}, nil
}

func (f *Flags) own(from string) (*Target, error) {
	if f.TLSCA != "" || f.TLSCert != "" || f.TLSKey != "" {
		return nil, errors.New("--tls-ca, --tls-cert and --tls-key are for a server of another machine: name it with --url or --server")
	}
	path, err := SocketPath(f.env())
	if err != nil {
		return nil, err
	}
	return &Target{Name: LocalName, URL: "unix://" + path, Local: true, From: from}, nil
}

// token returns the source of the token for a server.
func (f *Flags) token(name string, s Server) func() (string, error) {
	switch {
	case s.TokenFile != "":
		return func() (string, error) {
			data, err := os.ReadFile(s.TokenFile)
			if err != nil {
				return "", fmt.Errorf("token of server %s: %w", name, err)
			}
			if OthersMay(0o006, s.TokenFile) {
				f.note(fmt.Sprintf("other users of this machine can use the token in %s: run chmod o= on it", s.TokenFile))
			}
			return oneToken(name, s.TokenFile, data)
		}
	case len(s.TokenCommand) > 0:
		return func() (string, error) {
			if f.Quiet {
				return "", fmt.Errorf("token of server %s: %s may ask for a password, so it is not run here", name, s.TokenCommand[0])
			}
			ctx, cancel := context.WithTimeout(context.Background(), tokenTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, s.TokenCommand[0], s.TokenCommand[1:]...)
			cmd.Stderr = os.Stderr // the program may ask a person
			data, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("token of server %s: %s: %w", name, s.TokenCommand[0], err)
			}
			return oneToken(name, s.TokenCommand[0], data)
		}
	}
	return client.TokenFromEnv
}

// OthersMay reports whether the mode of a file has one of the bits. "": there is no file. On Windows a mode says nothing about others.
func OthersMay(bits os.FileMode, path string) bool {
	info, err := os.Stat(path)
	return runtime.GOOS != "windows" && path != "" && err == nil && info.Mode().Perm()&bits != 0
}

// tokenTime is how long a program may take to print a token. A person may have to unlock something.
const tokenTime = time.Minute

func oneToken(name, from string, data []byte) (string, error) {
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("token of server %s: %s has no token", name, from)
	}
	return token, nil
}

// Dial connects to the server. If the target is the user's own server and does not run, Dial starts the server. o may
// be nil; Dial fills in Token and TLS if unset.
func (f *Flags) Dial(ctx context.Context, o *client.Options) (*client.Client, error) {
	t, err := f.Target()
	if err != nil {
		return nil, err
	}
	var own client.Options
	if o != nil {
		own = *o
	}
	if own.Token == nil {
		own.Token = t.Token
	}
	if own.TLS == nil {
		own.TLS = t.TLS
	}
	if t.Local {
		return f.dialLocal(ctx, t, &own)
	}
	c, err := client.Dial(ctx, t.URL, &own)
	if err != nil {
		return nil, t.Advise(err)
	}
	return c, nil
}

// DialOptions returns how package transport opens a connection to t, for a command that does without package client. The
// header has the token.
func (t *Target) DialOptions() (*transport.DialOptions, error) {
	header, err := (&client.Options{Token: t.Token}).Header(t.URL)
	if err != nil {
		return nil, err
	}
	return &transport.DialOptions{Header: header, TLS: t.TLS, Proxy: http.ProxyFromEnvironment}, nil
}

// Open opens a connection of the messages of somebody else, such as a page in a browser. Open starts the user's own server if it does not run.
func (f *Flags) Open(ctx context.Context, subprotocol string) (transport.Conn, error) {
	t, err := f.Target()
	if err != nil {
		return nil, err
	}
	if t.Local { // checks also that the socket is the user's
		quiet := *f
		quiet.Quiet = true
		c, err := quiet.Control(ctx)
		if err != nil {
			return nil, err
		}
		defer c.Close()
	}
	o, err := t.DialOptions()
	if err != nil {
		return nil, err
	}
	if subprotocol != "" {
		o.Subprotocols = []string{subprotocol}
	}
	conn, err := transport.Dial(ctx, t.URL, o)
	if err != nil {
		return nil, t.Advise(err)
	}
	return conn, nil
}

// Control connects with an ephemeral session, for a command without programs of its own. The session ends with the
// connection, and no list has the session.
func (f *Flags) Control(ctx context.Context) (*client.Client, error) {
	return f.Dial(ctx, &client.Options{Name: "troupe", Ephemeral: true, ReconnectFor: -1})
}

// Servers returns the possible values of --server, sorted.
func (f *Flags) Servers() []string {
	c, err := ReadConfig(ConfigPath(f.env()), home(f.env()))
	if err != nil {
		return []string{LocalName}
	}
	names := append(slices.Collect(maps.Keys(c.Servers)), LocalName)
	slices.Sort(names)
	return names
}

// Advise adds advice to the error of a failed connection.
func (t *Target) Advise(err error) error {
	advice := ""
	var refused *transport.RefusedError
	var answer *protocol.Error
	switch {
	case isA[x509.UnknownAuthorityError](err) && (t.TLS == nil || t.TLS.RootCAs == nil):
		advice = "if the server made its certificate itself, name a copy of it with --tls-ca"
	case isA[tls.RecordHeaderError](err):
		advice = "the server has no TLS there: is its address ws:// instead of wss://?"
	case errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(t.URL, "ws://"):
		advice = "is the address of the server wss:// instead of ws://?"
	case errors.Is(err, errRefused), errors.Is(err, syscall.ENOENT) && strings.HasPrefix(t.URL, "unix"):
		advice = "does troupe serve run there?"
	case errors.As(err, &refused) && refused.Status == 401,
		errors.As(err, &answer) && answer.Code == protocol.CodeUnauthorized: // on a socket with frames
		advice = "the server asks who you are: set TROUPE_TOKEN or TROUPE_TOKEN_FILE, or token_file in the config file"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func (f *Flags) env() func(string) string {
	if f.getenv != nil {
		return f.getenv
	}
	return os.Getenv
}

func (f *Flags) note(text string) {
	switch {
	case f.Quiet:
	case f.Note != nil:
		f.Note(text)
	default:
		fmt.Fprintln(os.Stderr, "troupe: "+text)
	}
}
