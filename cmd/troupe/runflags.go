package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/console"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/spec"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// runFlags are the flags of troupe run.
type runFlags struct {
	viewFlags
	here      bool   // in this process
	detach    bool   // print the id and leave
	ephemeral bool   // the program ends with this command
	stdinOpen bool   // with detach: stdin stays open for troupe send
	name      string // the id of the process; "": made from the program
	session   string // start in this session, as a controller

	labels    []string            // KEY=VALUE
	node, key string              // --placement-key
	placement *protocol.Placement // of the three, by complete; nil: nothing is wished

	cwd     string
	env     []string // key=value
	envFile []string
	tty     choice
	argv    []string // empty: the login shell
	login   bool     // as client.Cmd; set once the server is known

	user, umask string // "": those of the server
	noNewPrivs  bool
	sandbox     *mode.Mode // nil: none is asked for
	noWait      bool       // for descendants
	timeout     time.Duration
	restart     *protocol.Restart
	limits      *protocol.ProcessLimits
	ready       string
	onFull      protocol.OnFull // "": as it fits
	keepOutput  uint64          // bytes; 0: the server's default
	noScreen    bool            // the server keeps no screen of the terminal
	scrollback  *uint64         // lines of the screen; nil: the server's default
}

// A choice is a flag whose absence differs from both yes and no.
type choice int

const (
	unset choice = iota
	yes
	no
)

// A value is a flag that a function parses.
type value struct {
	takes string // what the help calls the argument
	last  string
	set   func(string) error
}

func (v *value) String() string { return v.last }
func (v *value) Type() string   { return v.takes }
func (v *value) Set(s string) error {
	v.last = s
	return v.set(s)
}

// register makes the flags.
func (o *runFlags) register(fs *pflag.FlagSet) {
	parsed := func(name, takes, usage string, set func(string) error) {
		fs.Var(&value{takes: takes, set: set}, name, usage)
	}
	fs.BoolVarP(&o.detach, "detach", "d", false, "print the id of the process and leave; the program goes on without a client, and its output stays for a day after its end")
	fs.BoolVarP(&o.stdinOpen, "stdin", "i", false, "with --detach, keep the program's stdin open for troupe send and troupe attach; default: stdin is empty")
	fs.BoolVar(&o.ephemeral, "ephemeral", false, "end the program with this command: SIGHUP goes to the program, and it ends 30 s after this command is gone")
	fs.StringVar(&o.name, "name", "", "call the process `NAME` for attach, logs and so on; default: the program's name and four letters")
	fs.StringVar(&o.session, "session", "", "start in this `SESSION`, beside its owner: its name, its id, or the beginning of its id")
	fs.StringArrayVar(&o.labels, "label", nil, "in a cluster, run on a server with the label `KEY=VALUE`; repeatable")
	fs.StringVar(&o.node, "node", "", "in a cluster, run on the server with this `NAME`")
	fs.StringVar(&o.key, "placement-key", "", "in a cluster, run on the server of the others with the same `KEY`, as long as it has room")
	fs.BoolVar(&o.here, "here", false, "run without a server, as a child of this command: the program always ends with it")

	fs.StringVar(&o.cwd, "cwd", "", "run in `DIR`; default: the current directory, or on another machine the server's, or the home if the\nserver has users. There ~ and ~/DIR are below the home of the user: quote them ('~/src')")
	parsed("env", "KEY=VALUE", "set a variable of the program; KEY alone passes it on from here; repeatable. On your own server\nthe program gets this environment; elsewhere the server's without secrets, or that\nof a login if the server has users, and TERM, LANG and LC_* from here", func(s string) error {
		kv, err := spec.Variable(s, os.LookupEnv)
		o.env = append(o.env, kv)
		return err
	})
	fs.StringArrayVar(&o.envFile, "env-file", nil, "set the variables in `FILE`, a KEY=VALUE a line; repeatable; --env counts more")
	fs.BoolP("tty", "t", false, "run in a terminal; default: if stdin and stdout are terminals")
	fs.Bool("no-tty", false, "run on pipes")

	parsed("restart", "POLICY", "run the program again: permanent (always), transient (on-failure) or temporary (never);\nhow often: on-failure:5, permanent:10/1m; default: 5 in a minute, and then it is given up", func(s string) (err error) {
		o.restart, err = spec.Restart(s)
		return err
	})
	parsed("limit", "NAME=VALUE", "limit what the program may use, as memory=512M or cpus=0.5; repeatable. Names:\n"+strings.Join(spec.LimitNames(), ", "), func(s string) error {
		if o.limits == nil {
			o.limits = new(protocol.ProcessLimits)
		}
		return spec.Limit(o.limits, s)
	})
	fs.StringVar(&o.ready, "ready", "", "the `CONDITION` under which the program counts as ready: tcp:PORT, unix:PATH, file:PATH, line:REGEXP, delay:5s or exit;\nwith --detach, wait until it is ready")
	fs.DurationVar(&o.timeout, "timeout", 0, "end the program after this `TIME`, such as 10m")
	fs.BoolVar(&o.noWait, "no-wait-for-children", false, "end with the program, although children of it hold its output open; they are killed")

	parsed("retention", "POLICY", "when nobody takes the output and no more is kept: block (the program waits), spool (it goes to\ndisk first) or evict (the oldest is dropped); default: block; with --detach spool, and evict with\n--restart or if the server has no spool", func(s string) error {
		o.onFull = protocol.OnFull(s)
		return o.onFull.Validate()
	})
	parsed("keep-output", "BYTES", "how much of the newest output is kept for attach and logs, whoever has read it, such as 8M;\ndefault: the server's", func(s string) (err error) {
		if o.keepOutput, err = show.ParseBytes(s); err == nil && o.keepOutput == 0 {
			err = errors.New("the program could never write: choose at least 1")
		}
		return err
	})

	parsed("screen", "LINES", "in a terminal, how many lines that have scrolled off the server keeps, for attach and screen;\ndefault: 1000", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || n > protocol.MaxScrollback {
			return fmt.Errorf("%q is not a number of lines from 0 to %d", s, protocol.MaxScrollback)
		}
		o.scrollback = &n
		return nil
	})
	fs.BoolVar(&o.noScreen, "no-screen", false, "in a terminal, the server keeps no screen until attach or screen asks for one")

	fs.StringVar(&o.user, "user", "", "run as the `USER` with this name or number, or as UID:GID. HOME, USER, LOGNAME and SHELL become the user's.\nWith --here, troupe must be root; else the server must allow the user")
	fs.StringVar(&o.umask, "umask", "", "run with this `MASK` for new files, in octal digits, such as 027")
	fs.BoolVar(&o.noNewPrivs, "no-new-privs", false, "the program gains no privileges, as with sudo and other set-user-ID programs")
	parsed("sandbox", "SANDBOX", "confine the program, which cannot undo it: read-only (it reads all files and writes none),\nworkspace-write (it also writes below its directory, but not to .git and the like, and to /tmp);\nwithout the network, unless you add ,net", func(s string) error {
		m, err := mode.Parse(s)
		o.sandbox = &m
		return err
	})
	o.viewFlags.register(fs)
}

// register makes the flags that run and attach share.
func (o *viewFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&o.escape, "escape", "~", "`CHAR` that begins an escape sequence after Enter (~. leaves, ~? lists them); none: there is none")
	fs.StringVar(&o.detachKeys, "detach-keys", "ctrl-p,ctrl-q", "`KEYS` that detach from the program; none: no keys do")
	fs.DurationVar(&o.reconnectFor, "reconnect-for", 0, "try for this `TIME` to resume a lost connection; default: as long as the session lives")
}

// complete checks the flags that run and attach share.
func (o *viewFlags) complete() (err error) {
	if o.keys.Escape, err = console.ParseEscape(o.escape); err != nil {
		return fmt.Errorf("--escape: %w", err)
	}
	if o.keys.Detach, err = console.ParseDetach(o.detachKeys); err != nil {
		return fmt.Errorf("--detach-keys: %w", err)
	}
	if o.reconnectFor < 0 {
		return fmt.Errorf("--reconnect-for is %v: choose a positive duration, or leave it out", o.reconnectFor)
	}
	return nil
}

// complete takes the program and its arguments, and returns an error if the flags contradict each other.
func (o *runFlags) complete(fs *pflag.FlagSet, args []string) (err error) {
	o.argv = args
	asked, refused := fs.Changed("tty") && fs.Lookup("tty").Value.String() == "true", fs.Changed("no-tty") && fs.Lookup("no-tty").Value.String() == "true"
	switch {
	case len(args) == 0 && o.local():
		return errors.New("name a program, such as troupe run -- make test; only with --url or --server does troupe run start a shell")
	case asked && refused:
		return errors.New("choose one of --tty and --no-tty")
	case o.here && (o.detach || o.session != "" || o.target.URL != "" || o.target.Server != ""):
		return errors.New("--here uses no server: leave out --detach, --session, --url and --server")
	case o.ephemeral && (o.detach || o.session != ""):
		return errors.New("--ephemeral is for a program in the foreground, in a session of its own: leave out --detach and --session")
	case o.stdinOpen && !o.detach:
		return errors.New("--stdin is for --detach: otherwise the program reads the stdin of troupe run")
	case fs.Changed("name") && !plainName(o.name):
		return fmt.Errorf("--name is %q: write a letter or a digit, and then at most %d letters, digits, dots, hyphens and underscores", o.name, maxName-1)
	case o.noScreen && o.scrollback != nil:
		return errors.New("choose one of --screen and --no-screen")
	case o.timeout < 0:
		return fmt.Errorf("--timeout is %v: choose a positive duration", o.timeout)
	case asked:
		o.tty = yes
	case refused:
		o.tty = no
	}
	if o.placement, err = spec.Placement(o.labels, o.node, o.key); err != nil {
		return fmt.Errorf("--label: %w", err)
	}
	if o.placement != nil && (o.here || o.session != "") {
		return errors.New("--label, --node and --placement-key choose the server of a new session: leave them out with --here and --session")
	}
	var fromFiles []string
	for _, path := range o.envFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--env-file: %w", err)
		}
		env, err := spec.EnvFile(string(text), os.LookupEnv)
		if err != nil {
			return fmt.Errorf("--env-file %s: %w", path, err)
		}
		fromFiles = append(fromFiles, env...)
	}
	o.env = append(fromFiles, o.env...)
	if _, err := o.readiness(); err != nil {
		return fmt.Errorf("--ready: %w", err)
	}
	return o.viewFlags.complete()
}

// local reports whether the program runs on this machine as this user.
func (o *runFlags) local() bool { return o.here || o.target.Local() }

// dir returns the directory of the program; "": the server's own. The current directory has a path without symbolic links if
// the program is confined: a sandbox refuses a workspace behind a link, and who is in a directory does not choose its path.
func (o *runFlags) dir() (string, error) {
	if !o.local() {
		return o.cwd, nil
	}
	dir, err := filepath.Abs(o.cwd)
	if err != nil || o.cwd != "" || o.sandbox == nil {
		return dir, err
	}
	return filepath.EvalSymlinks(dir)
}

func (o *runFlags) readiness() (*protocol.Ready, error) {
	if o.ready == "" {
		return nil, nil
	}
	dir, err := o.dir()
	if err != nil {
		return nil, err
	}
	return spec.Ready(o.ready, dir)
}

// choosesLogin decides whether the program has the environment of a login. On a server with users it has: the environment of the
// server is of no use to another user.
func (o *runFlags) choosesLogin(c *client.Client) error {
	o.login = !o.local() && c.Has("login") && (len(o.argv) == 0 || c.Has("users"))
	if len(o.argv) == 0 && !o.login {
		return errors.New("this server is too old to start a login shell: name a program")
	}
	if o.login && o.sandbox != nil && o.sandbox.Write && !path.IsAbs(o.cwd) {
		return errors.New("--sandbox workspace-write needs a workspace here: name it with --cwd, as an absolute path")
	}
	return nil
}

// prepare sets up the program. limits are those of the server.
func (o *runFlags) prepare(cmd *client.Cmd, limits protocol.Limits) (err error) {
	cmd.ID = o.name
	if cmd.Dir, err = o.dir(); err != nil {
		return err
	}
	if cmd.Ready, err = o.readiness(); err != nil {
		return err
	}
	cmd.User, cmd.Umask, cmd.NoNewPrivs = o.user, o.umask, o.noNewPrivs
	if o.sandbox != nil {
		workspace := cmd.Dir
		if !path.IsAbs(workspace) { // in the home of the user, which only the server knows
			workspace = ""
		}
		cmd.Sandbox = o.sandbox.Sandbox(workspace)
	}
	cmd.TTY = o.tty == yes
	if cmd.TTY && !o.noScreen {
		cmd.Screen = &protocol.StartScreen{IfRoom: o.scrollback == nil, Scrollback: o.scrollback}
	}
	cmd.StdinOpen = o.stdinOpen
	cmd.Timeout, cmd.Restart, cmd.Limits = o.timeout, o.restart, o.limits
	if o.detach {
		cmd.Restart = againAfterEnd(o.restart)
	}
	if cmd.TTY || o.noWait {
		cmd.WaitDelay = -1 // as with ssh, a background job does not keep a terminal
	}
	cmd.Retention = o.retention(limits)
	o.environment(cmd)
	return nil
}

// againAfterEnd returns a restart policy, nil for none, of a program that troupe start runs again after its end.
func againAfterEnd(r *protocol.Restart) *protocol.Restart {
	again := protocol.Restart{Policy: protocol.RestartTemporary}
	if r != nil {
		again = *r
	}
	again.AfterEnd = true
	return &again
}

// retention returns how much output the server keeps; nil: as it does by itself.
func (o *runFlags) retention(limits protocol.Limits) *protocol.Retention {
	r := protocol.Retention{OnFull: o.onFull}
	if o.keepOutput > 0 {
		r.Bytes = &o.keepOutput
	}
	if r.OnFull == "" && (o.detach || o.session != "") { // nobody may come for the output
		if r.OnFull = protocol.OnFullSpool; o.restart != nil || limits.MaxSpoolBytes == 0 {
			r.OnFull = protocol.OnFullEvict
		}
	}
	if r == (protocol.Retention{}) {
		return nil
	}
	return &r
}

// environment sets the environment of the program.
func (o *runFlags) environment(cmd *client.Cmd) {
	if o.local() && o.user == "" {
		cmd.Env = os.Environ()
		if o.cwd != "" {
			cmd.Env = append(cmd.Env, "PWD="+cmd.Dir) // that of this command is another directory's
		}
		cmd.Env = append(cmd.Env, o.env...)
		if o.umask == "" {
			cmd.Umask = umask()
		}
		return
	}
	if cmd.Login = o.login; !o.login {
		cmd.EnvPolicy = client.InheritEnv()
	}
	if o.here {
		// The same variables, but the server replaces those of the user.
		cmd.Env, cmd.EnvPolicy.IgnoreDefaultExcludes = o.env, true
		return
	}
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "LANG=") || strings.HasPrefix(kv, "LC_") || cmd.TTY && strings.HasPrefix(kv, "TERM=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, o.env...)
}

// maxName is how many characters a name for people may have. The ids of the wire may be longer.
const maxName = 64

// plainName reports whether a person can write the name in every command: the name is no flag, no pattern, and no
// SESSION/PROCESS, and it is one word of a shell.
func plainName(name string) bool {
	for i, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && (i == 0 || !strings.ContainsRune("._-", r)) || r == unicode.ReplacementChar {
			return false
		}
	}
	return name != "" && utf8.RuneCountInString(name) <= maxName
}
