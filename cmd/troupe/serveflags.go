//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/settings"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
)

// parsed is a flag with a text that set parses.
type parsed struct {
	set        func(string) error
	kind, text string
}

func (p *parsed) String() string { return p.text }
func (p *parsed) Type() string   { return p.kind }

func (p *parsed) Set(s string) error {
	err := p.set(s)
	if err == nil {
		p.text = s
	}
	return err
}

// source says where the settings of troupe serve come from.
func (o *serveOptions) source() settings.Source {
	inHolder := "the holder starts before the file is read: write --" + hold.Flag + ", or set " + hold.Variable
	return settings.Source{
		Sections: o.sections(), Prefix: hold.Prefix, File: "config", Secret: []string{"ws-token-sha256"},
		NoFile: map[string]string{hold.Flag: inHolder}, NoOther: []string{hold.Check, hold.Show}, JSON: []string{"max-limits", "default-limits"},
	}
}

// sections makes the flags of troupe serve, in the order in which an operator needs them.
func (o *serveOptions) sections() (all []settings.Section) {
	section := func(title string) *pflag.FlagSet {
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.SortFlags = false
		all = append(all, settings.Section{Title: title, FlagSet: f})
		return f
	}
	f := section("Configuration")
	f.String("config", "", "YAML `FILE` with settings: the names are those of the flags, without dashes before them. A flag goes before the variable "+hold.Prefix+"NAME, and a variable before the file (docs/CONFIGURATION.md)")
	f.Bool(hold.Check, false, "check the settings, say what is wrong with them, and do not serve")
	f.Bool(hold.Show, false, "print all settings in force and where they come from, and do not serve")

	f = section("Address")
	f.StringVar(&o.listen, "listen", "ws://127.0.0.1:7766", "`URL` to listen at: ws://IP:PORT (port 0: any), wss://IP:PORT with --tls-cert, unix://PATH or stdio")
	f.StringVar(&o.framing, "framing", "", "`how` messages are framed: lines (only on stdio), or length (4 bytes of length before each message; on stdio or a unix socket); default: lines on stdio, else websockets")
	f.BoolVar(&o.insecure, "insecure", false, "allow an address that other machines can reach although no credential is asked: whoever can connect can run programs as you")
	f.StringArrayVar(&o.allowOrigins, "allow-origin", nil, "accept web pages of this `origin`, such as https://example.org; may be repeated (default: none)")
	f.BoolVar(&o.console, "console", false, "serve the web console at /console/: a page that shows and drives what runs here, for everybody who may connect (docs/CONSOLE.md). Behind a proxy, name the origin that browsers see with --allow-origin")
	f.StringVar(&o.credentials.tls.Certificate, "tls-cert", "", "PEM `FILE` with the server's certificate, for --listen wss://IP:PORT")
	f.StringVar(&o.credentials.tls.Key, "tls-key", "", "PEM `FILE` with the key of --tls-cert")
	f.BoolVar(&o.credentials.tls.AllowTLS12, "tls-1.2", false, "allow TLS 1.2 beside 1.3")
	f.DurationVar(&o.exitWhenIdle, "exit-when-idle", 0, "end, with exit code 0, when for so long there was no connection, and no session had a program or the output of one; 0: serve until a signal comes")
	f.Bool(hold.Flag, false, "programs and sessions end with this server; default: except on stdio, a small process, the holder, keeps them if this server is killed or upgraded") // see package hold

	f = section("Who may connect")
	f.StringVar(&o.credentials.tokens, "auth-token-file", "", "accept the bearer tokens in `FILE`. A line is NAME TOKEN, or NAME sha256:HEX")
	f.StringVar(&o.credentials.jwtKeys, "auth-jwt-keys", "", "accept signed tokens (JWT) by the public keys in `FILE`: a JSON Web Key Set, or PEM. The algorithms are RS256, ES256 and EdDSA")
	f.StringVar(&o.credentials.jwtSecret, "auth-jwt-secret-file", "", "accept signed tokens (JWT, HS256) by the secret in `FILE`, of 32 bytes or more")
	f.StringVar(&o.credentials.jwt.Issuer, "auth-jwt-issuer", "", "the `issuer` that signed tokens must name")
	f.StringVar(&o.credentials.jwt.Audience, "auth-jwt-audience", "", "the `audience` that signed tokens must name")
	f.DurationVar(&o.credentials.jwt.Skew, "auth-jwt-skew", 30*time.Second, "how far the clocks of issuer and server may differ")
	f.StringVar(&o.credentials.tls.ClientCAs, "tls-client-ca", "", "accept client certificates issued by the certificates in the PEM `FILE`")
	f.StringVar(&o.credentials.certificates, "tls-client-name", "cn", "which `name` in a client certificate counts: cn, dns, uri or email")
	f.BoolVar(&o.credentials.unixUsers, "auth-unix-users", false, "accept every user that can open the unix socket, by the user's number")
	f.StringVar(&o.credentials.roles, "auth-roles-file", "", "what identities may do beyond their own sessions: lines of `FILE` are NAME operator, or NAME observes NAME …")
	f.StringVar(&o.credentials.oidc.Issuer, "console-oidc-issuer", "", "let people log in at the web console by the provider of OpenID Connect at this `URL`. An identity is oidc: and the subject. The provider must know the address https://…/console/oidc/callback")
	f.StringVar(&o.credentials.oidc.ClientID, "console-oidc-client-id", "", "the `id` of this server at the provider")
	f.StringVar(&o.credentials.oidc.SecretFile, "console-oidc-client-secret-file", "", "`FILE` with the client secret. With another secret, all logins end")
	f.StringArrayVar(&o.credentials.oidc.Allow, "console-oidc-allow", nil, "who may log in: people with this `CLAIM=VALUE` in the ID token, such as groups=troupe; sub=*: everybody whom the provider knows. May be repeated; one is enough")
	f.StringArrayVar(&o.credentials.oidc.Scopes, "console-oidc-scope", nil, "ask the provider for this `scope`, too, such as groups; may be repeated")
	f.DurationVar(&o.credentials.oidc.Lasts, "console-oidc-lasts", 12*time.Hour, "how long a login at the console lasts, whatever the provider says meanwhile")
	f.DurationVar(&o.credentials.maxShareTime, "max-share-time", 7*24*time.Hour, "how long the owner of a session may let others in by a token (troupe sessions share); 0: not at all. Only for servers that ask for credentials")

	f = section("What identities may do")
	f.StringVar(&o.users, "users-file", "", "as whom programs may run: lines of `FILE` are IDENTITY USER …, or IDENTITY default USER; the identity * is everybody, the user @server is this server's, and with @no-new-privs programs gain no privileges. Starts without a user and a default are refused. Calls about files are made as the default user. Needs a server that runs as root")
	f.StringVar(&o.policy, "policy-file", "", "which programs, directories, files and variables identities may use: lines of `FILE` are IDENTITY WORD VALUE …; what no line allows is refused (docs/POLICY.md)")
	f.VarPF(&parsed{kind: "boolfunc", set: func(s string) (err error) {
		o.config.CompleteSandbox = s == "complete"
		if o.config.RequireSandbox = o.config.CompleteSandbox; o.config.RequireSandbox {
			return nil
		}
		if o.config.RequireSandbox, err = strconv.ParseBool(s); err != nil {
			return errors.New("write --require-sandbox or --require-sandbox=complete")
		}
		return nil
	}}, "require-sandbox", "", "refuse programs and calls about files without a sandbox that confines files, whatever a client asks for; programs whose client names none get --default-sandbox. --require-sandbox=complete also refuses sandboxes that lack something here, as in most containers (troupe doctor tells)").NoOptDefVal = "true"
	f.Var(&parsed{kind: "string", set: func(s string) error {
		m, err := mode.Parse(s)
		o.config.DefaultSandbox = m.Sandbox
		return err
	}}, "default-sandbox", "the sandbox of programs whose client names none: `SANDBOX` is read-only or workspace-write, each also with ,net; the workspace is the program's working directory (default: such programs are not confined)")
	f.BoolVar(&o.config.NoNewPrivs, "no-new-privs", false, "no program gains privileges, as with sudo and other set-user-ID programs")
	f.BoolVar(&o.config.AllowHTTP, "allow-http", false, "let clients send HTTP requests from this machine, to any address that it can reach")

	f = section("Record and log")
	f.StringVar(&o.audit.where, "audit", "", "record who connects, starts programs and changes files: in a `FILE`, or stderr, syslog or journald (default: no record)")
	f.BoolVar(&o.audit.argv, "audit-argv", true, "record all arguments of programs, which may hold secrets; --audit-argv=false: only the program")
	f.StringVar(&o.audit.full, "audit-full", "refuse", "`what` happens while the record cannot be written: refuse (no program starts) or continue (the lines are counted)")
	f.StringVar(&o.log.levels, "log-level", "", "which lines the log has: `LEVELS` is debug, info, warn or error, and may name packages, such as info,session=debug,transport=warn (default info; with debug the log has each event of sessions and processes)")
	f.StringVar(&o.log.format, "log-format", "text", "how a line of the log is written: text or json")
	f.BoolVar(&o.log.verbose, "verbose", false, "as --log-level debug")

	f = section("Operation")
	f.StringVar(&o.operate.admin, "admin", "", "`ADDRESS` for troupe admin: unix://PATH, or none (default: a socket in the directory of your own server; on stdio none)")
	f.StringVar(&o.operate.metrics, "metrics-listen", "", "`URL` for Prometheus, http://IP:PORT: /metrics, /healthz and /readyz, for everybody who can connect (default: none; the admin socket has them, too)")

	f.StringVar(&o.trace.endpoint, "trace-endpoint", "", "`URL` of a collector of OpenTelemetry (OTLP over HTTP), such as http://127.0.0.1:4318: it gets a span for each start, session and resume (default: nobody traces)")
	f.Float64Var(&o.trace.ratio, "trace-ratio", 1, "which part of the traces is sent, from 0 to 1, unless a client has decided by the member trace of its request")

	f = section("Cluster: several servers behind one address (docs/CLUSTER.md)")
	f.StringVar(&o.cluster.members, "cluster", "", "`HOW` this node knows the others: etcd://HOST:PORT,HOST:PORT/PREFIX (etcds with TLS, by the certificate of the node), static:HOST:PORT,HOST:PORT, or dns:HOST:PORT with an address for each node (default: this server is alone)")
	f.StringVar(&o.cluster.advertise, "advertise", "", "`HOST:PORT` where the other nodes reach this one")
	f.StringVar(&o.cluster.listen, "cluster-listen", "", "`IP:PORT` to listen at for the other nodes (default: the port of --advertise, at its address or at all)")
	f.StringVar(&o.cluster.node, "node", "", "`NAME` of this node, as in its certificate (default: the name of the machine)")
	f.StringArrayVar(&o.cluster.labels, "node-label", nil, "`KEY=VALUE` that clients may ask for, such as gpu=a100; may be repeated")
	f.StringVar(&o.cluster.files.Certificate, "cluster-cert", "", "PEM `FILE` with the certificate of this node, for its name, as a server and as a client")
	f.StringVar(&o.cluster.files.Key, "cluster-key", "", "PEM `FILE` with the key of --cluster-cert")
	f.StringVar(&o.cluster.files.CA, "cluster-ca", "", "PEM `FILE` with the issuers of the certificates of nodes: whoever has one of their certificates is a node, and may act for every identity")
	f.StringVar(&o.cluster.files.Revoked, "cluster-revoked", "", "`FILE` with a revocation list (CRL) of an issuer: nodes with these certificates are cut off within seconds")

	f = section("Limits of an identity, or without credentials of an address (in a cluster: docs/CLUSTER.md)")
	f.IntVar(&o.maxConnectionsEach, "max-connections-each", 0, "how many connections an identity may have; 0: no limit of its own")
	f.IntVar(&o.maxConnectionsEachAddress, "max-connections-each-address", 0, "how many connections an address, or a user of a unix socket, may have; 0: no limit of its own")
	f.IntVar(&o.config.MaxSessionsEach, "max-sessions-each", 0, "how many sessions an identity may have; 0: only --max-sessions counts")
	f.IntVar(&o.config.MaxProcessesEach, "max-processes-each", 0, "how many processes an identity may run in all its sessions; 0: no limit")
	f.Float64Var(&o.config.MaxStartsEach, "max-starts-each", 0, "how many processes an identity may start in a second. A restart counts, and waits. 0: no limit")
	f.IntVar(&o.config.StartsBurst, "max-starts-burst", 10, "how many starts of --max-starts-each may come at once")
	sizeVar(f, &o.config.MaxOutputRateEach, "max-output-rate-each", 0, "how many `bytes` all programs of an identity may write in a second; beyond it they wait; 0: no limit")
	sizeVar(f, &o.config.MaxStdinRateEach, "max-stdin-rate-each", 0, "how many `bytes` of stdin all programs of an identity may get in a second; beyond it writes to stdin wait; 0: no limit")
	sizeVar(f, &o.config.MaxRetainedEach, "max-retained-each", 0, "`bytes` of output that the server holds in memory for all programs of an identity, without the first 64 KiB of each; beyond it they wait; 0: only --memory-budget counts")
	sizeVar(f, &o.config.MaxSpooledEach, "max-spooled-each", 0, "`bytes` that all programs of an identity may spool; 0: only --spool-budget counts")

	f = section("Limits of the server")
	f.IntVar(&o.config.MaxConnections, "max-connections", 10_000, "how many connections may have a session; a limit on connections never keeps a client from resuming because of its own dead connections")
	f.IntVar(&o.config.MaxSessions, "max-sessions", 10_000, "how many sessions there may be")
	sizeVar(f, &o.config.Budget, "memory-budget", 1<<30, "`bytes` that clients may make the server hold; negative: no bound. Half is for output, a quarter for messages, requests and answers, an eighth for screens and for output that clients get only at a program's end, an eighth for arguments and environments. The first 64 KiB of each process, program, connection, screen and session do not count")
	f.BoolVar(&o.config.EvictForMemory, "evict-for-memory", false, "when --memory-budget is used up, end the session that has been without a connection the longest; default: programs wait")
	sizeVar(f, &o.config.SpoolBudget, "spool-budget", 10<<30, "`bytes` that all programs together may spool")
	f.StringVar(&o.config.SpoolDir, "spool-dir", "", "`directory` for output of programs whose client asked for a spool (default: the directory of temporary files)")

	f = section("Sessions")
	f.DurationVar(&o.config.DetachedTTL, "detached-ttl", 5*time.Minute, "how long a session lives without a connection; negative: forever")
	f.DurationVar(&o.config.MaxDetachedTTL, "max-detached-ttl", 24*time.Hour, "the longest time that a client may ask for in place of --detached-ttl; troupe run asks for a day; negative: no limit")
	f.DurationVar(&o.config.IdleTimeout, "idle-timeout", 0, "how long a session lives without a connection and without output; 0: only --detached-ttl counts")
	f.DurationVar(&o.config.MaxAge, "max-session-age", 0, "how long a session lives, connected or not; 0: forever")

	f = section("Programs")
	f.IntVar(&o.config.MaxProcesses, "max-processes", 10_000, "how many processes a session may have, including ended processes whose output can still be read")
	f.DurationVar(&o.config.MaxRunTime, "max-run-time", 0, "how long a run of a program may take, also if its client names no timeout; 0: no limit")
	f.Var(&parsed{kind: "string", set: limitsInto(&o.config.MaxLimits)}, "max-limits", "the largest limits that a client may name, as `JSON`; nice and oomScoreAdj: the smallest. They also hold where --default-limits names none")
	f.Var(&parsed{kind: "string", set: limitsInto(&o.config.DefaultLimits)}, "default-limits", "limits of programs whose client names none, as `JSON`, such as {\"nofile\":1024}")
	sizeVar(f, &o.config.Retention, "retention", 1<<20, "`bytes` of the newest output that the server keeps of each process, whoever has read them; a process waits when its owner has not read so much")
	sizeVar(f, &o.config.SpoolLimit, "spool-limit", 1<<30, "`bytes` that a program may spool; there is room for at least 140,000 pieces; 0: no spool")
	f.DurationVar(&o.config.ClosedRetention, "closed-retention", 80*time.Second, "how long the output of a process can be read after its end")
	f.DurationVar(&o.config.KillGrace, "kill-grace", 2*time.Second, "time between SIGTERM and SIGKILL for programs that do not say another; when the server stops, the longest such time")
	f.DurationVar(&o.config.DrainTimeout, "drain-timeout", 30*time.Second, "how long clients that go on reading may take for the output of a session that ends, after its programs have ended")
	f.StringVar(&o.containment, "containment", "auto", "`how` the descendants of a program are found: auto, cgroup, marker or group")

	f = section("Credentials with the flags of exec-server")
	f.StringVar(&o.credentials.peer.mode, "ws-auth", "", "`MODE` is "+capabilityToken+" or "+signedBearerToken)
	f.StringVar(&o.credentials.peer.tokenFile, "ws-token-file", "", "the `PATH` of a file with a single bearer token")
	f.StringVar(&o.credentials.peer.tokenDigest, "ws-token-sha256", "", "the SHA-256 of a bearer token, in `HEX`")
	f.StringVar(&o.credentials.peer.secretFile, "ws-shared-secret-file", "", "the `PATH` of the secret of signed tokens (HS256)")
	f.StringVar(&o.credentials.peer.issuer, "ws-issuer", "", "the `ISSUER` that signed tokens must name")
	f.StringVar(&o.credentials.peer.audience, "ws-audience", "", "the `AUDIENCE` that signed tokens must name")
	f.Var(&parsed{kind: "string", set: func(s string) error {
		seconds, err := strconv.ParseUint(s, 10, 64)
		switch {
		case err != nil:
			return errors.New("write a whole number of seconds, such as 30")
		case seconds > 100*365*24*3600:
			return errors.New("more than 100 years")
		}
		o.credentials.peer.skew = new(time.Duration(seconds) * time.Second)
		return nil
	}}, "ws-max-clock-skew-seconds", "how many `SECONDS` the clocks of issuer and server may differ (default 30)")
	return all
}

// helpWidth is how long a line of the help may be.
const helpWidth = 96

// printHelp prints the flags of troupe serve by sections.
func printHelp(w io.Writer, sections []settings.Section) {
	fmt.Fprint(w, "usage: troupe serve [flags]\n\nServes clients until SIGTERM or SIGINT, and prints its address when it is ready.\n"+
		"SIGHUP reads the settings again; in a terminal it is the end, too.\n"+
		"Without flags only this machine can connect, and no credential is asked.\n"+
		"The files with tokens, keys, certificates, roles, users and policies are read at each use.\n"+
		"docs/EXPOSE.md puts a server on a network, step by step.\n")
	for _, s := range sections {
		fmt.Fprintf(w, "\n%s:\n", s.Title)
		s.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				printFlag(w, f)
			}
		})
	}
}

func printFlag(w io.Writer, f *pflag.Flag) {
	takes, text := pflag.UnquoteUsage(f)
	if takes == "int" || takes == "float" {
		takes = "N"
	}
	fmt.Fprintf(w, "  --%s\n", strings.TrimSpace(f.Name+" "+takes))
	text += defaultOf(f)
	const indent = "        "
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent {
			if len(line)+1+len(word) > helpWidth {
				fmt.Fprintln(w, line)
				line = indent
			} else {
				line += " "
			}
		}
		line += word
	}
	fmt.Fprintln(w, line)
}
