// Package compose reads files with a set of programs, troupe.yaml and Procfile. From a file, the package computes the
// processes, their start order, and the changes on a server with an older version of the file. The package does no
// input or output except reading the named files.
package compose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Project is a set of programs, read from a file.
type Project struct {
	Name     string // of the session with the programs
	Named    bool   // the file has the name; otherwise the directory gives the name
	File     string // path of the file
	Dir      string // directory of the file, absolute
	Programs []*Program
}

// Program is an entry of the file. Each of its replicas is a process. The JSON of a Program is part of a Digest.
type Program struct {
	Name string
	Line int // in the file; 0: unknown

	Description string   `keys:"description"`
	Argv        []string // a string as a command becomes sh -c
	Dir         string   `keys:"working_dir,cwd"` // relative to the directory of the file; "": the directory of the file
	Env         map[string]string
	DependsOn   []Dependency
	Ready       *protocol.Ready // Unix and File are paths, relative to the directory of the program
	Liveness    *protocol.Liveness
	Restart     protocol.Restart
	StopSignal  protocol.Signal
	StopTimeout time.Duration
	Timeout     time.Duration `keys:"timeout"` // of a run; 0: none
	Limits      *protocol.ProcessLimits
	User        string `keys:"user"`
	Umask       string `keys:"umask" is:"umask"`
	NoNewPrivs  bool   `keys:"no_new_privileges"`
	Sandbox     string `json:",omitempty" keys:"sandbox" is:"sandbox"` // as of mode.Mode; "": none is asked for
	TTY         bool   `keys:"tty,is_tty"`

	Replicas  int    `keys:"replicas" range:"1,500"` // 0: the file does not say, and the only process has the name of the program
	Namespace string `keys:"namespace"`
	Disabled  bool   `keys:"disabled"`
	Port      int    // Procfile: PORT of the first replica; 0: none
}

// Conditions of a Dependency.
const (
	Started   = "process_started"
	Healthy   = "process_healthy"
	Completed = "process_completed_successfully"
)

// Dependency is another program, and the condition for which a program waits before each run.
type Dependency struct {
	Name      string
	Condition string // Started, Healthy or Completed
	Line      int
}

// Defaults of the file, all documented in docs/UP.md.
const (
	DefaultNamespace   = "default"
	DefaultStopTimeout = 10 * time.Second
	DefaultMaxRestarts = 5
	DefaultWindow      = time.Minute
	DefaultStartTime   = time.Minute
)

// Unit is a process of a program.
type Unit struct {
	ID      string // of the process: the name of the program, or the name and the number of the replica
	Program *Program
	Replica int // from 1
}

// Units returns the processes of a program.
func (p *Program) Units() (all []Unit) {
	if p.Replicas == 0 {
		return []Unit{{p.Name, p, 1}}
	}
	for n := 1; n <= p.Replicas; n++ {
		all = append(all, Unit{fmt.Sprintf("%s-%d", p.Name, n), p, n})
	}
	return all
}

// Program returns the program with a name; nil: there is none.
func (p *Project) Program(name string) *Program {
	if i := slices.IndexFunc(p.Programs, func(o *Program) bool { return o.Name == name }); i >= 0 {
		return p.Programs[i]
	}
	return nil
}

// An Error is a fault of a file.
type Error struct {
	File         string
	Line, Column int // 0: unknown
	Text         string
}

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return e.File + ": " + e.Text
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

// Errors are all faults of a file, in the order of its lines.
type Errors []*Error

func (e Errors) Error() string {
	var lines []string
	for _, one := range e {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}
