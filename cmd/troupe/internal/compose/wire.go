package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Place is the place of the programs on a server, with settings from outside the file.
type Place struct {
	Dir string // the directory on the server for relative directories and paths
	// RealDir is Dir without symbolic links, for programs in a sandbox, which refuses a workspace behind a link. "": Dir.
	RealDir string
	// Env has the variables of the caller for every program. Variables of the file replace them. Env is no part of a
	// Digest.
	Env       map[string]string
	EnvPolicy *protocol.EnvPolicy // nil: nothing of the server is inherited
	Size      protocol.Size       // of terminals; zero: the server's default
}

// Params returns the params for starting a process in a group. The label has the digest.
func (p *Project) Params(u Unit, at Place) protocol.ProcessStartParams {
	one := u.Program
	base := at.Dir
	if one.Sandbox != "" && at.RealDir != "" {
		base = at.RealDir
	}
	dir := absolute(base, one.Dir)
	restart := one.Restart
	restart.AfterEnd = true // for troupe start
	s := protocol.ProcessStartParams{
		ProcessID:   u.ID,
		Argv:        one.Argv,
		Cwd:         protocol.FileURI(dir),
		Env:         maps.Clone(at.Env),
		EnvPolicy:   at.EnvPolicy,
		TTY:         one.TTY,
		Retention:   &protocol.Retention{OnFull: protocol.OnFullEvict}, // nobody has to read
		StopSignal:  one.StopSignal,
		KillGraceMs: millis(one.StopTimeout),
		Limits:      one.Limits,
		User:        one.User,
		Umask:       one.Umask,
		NoNewPrivs:  one.NoNewPrivs,
		Restart:     &restart,
		Liveness:    one.Liveness,
		Label:       p.label(u),
	}
	if s.Env == nil {
		s.Env = make(map[string]string)
	}
	maps.Copy(s.Env, u.env())
	if m, err := mode.Parse(one.Sandbox); err == nil {
		s.Sandbox = m.Sandbox(dir).JSON()
	}
	if one.Timeout > 0 {
		s.TimeoutMs = millis(one.Timeout)
	}
	if one.TTY && at.Size != (protocol.Size{}) {
		s.Size = &at.Size
	}
	if one.Ready != nil {
		ready := *one.Ready
		if ready.Unix != "" {
			ready.Unix = protocol.FileURI(absolute(dir, ready.Unix))
		}
		if ready.File != "" {
			ready.File = protocol.FileURI(absolute(dir, ready.File))
		}
		s.Ready = &ready
	}
	for _, d := range one.DependsOn {
		for _, on := range p.Program(d.Name).Units() {
			s.DependsOn = append(s.DependsOn, on.ID)
		}
	}
	return s
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// env returns the variables of a process from the file.
func (u Unit) env() map[string]string {
	env := maps.Clone(u.Program.Env)
	env["TROUPE_PROCESS"] = u.ID
	if u.Program.Replicas > 0 {
		env["TROUPE_REPLICA"] = strconv.Itoa(u.Replica)
	}
	return env
}

// label returns the text kept by the server with the process: the digest, and the path of the file.
func (p *Project) label(u Unit) string {
	label := p.Digest(u) + " " + p.File
	return label[:min(len(label), 1024)]
}

// From returns the file from which troupe up has started a group; "": unknown.
func From(members []protocol.GroupMember) string {
	for _, m := range members {
		if digest, file, ok := strings.Cut(m.Label, " "); ok && strings.HasPrefix(digest, digestPrefix) {
			return file
		}
	}
	return ""
}

const digestPrefix = "troupe-up:"

// Digest is a hash of all settings of a run of the process in the file. If the digest has changed, the process must
// be started again.
func (p *Project) Digest(u Unit) string {
	one := *u.Program
	one.Line, one.Description, one.Namespace, one.Disabled, one.Replicas = 0, "", "", false, 0
	one.Env = u.env()
	var on []string
	for _, d := range one.DependsOn {
		for _, other := range p.Program(d.Name).Units() {
			on = append(on, other.ID+" "+d.Condition)
		}
	}
	one.DependsOn = nil
	text, err := json.Marshal(struct {
		Program   Program
		DependsOn []string
	}{one, on})
	if err != nil {
		panic(err) // JSON can express every Program
	}
	sum := sha256.Sum256(text)
	return digestPrefix + hex.EncodeToString(sum[:16])
}
