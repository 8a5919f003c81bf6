package compose

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

var procfileLine = regexp.MustCompile(`^([A-Za-z0-9_-]+):\s*(.+)$`)

// firstPort is the PORT of the first program of a Procfile. The PORT of each further program is greater by portStep.
// foreman uses the same numbers.
const firstPort, portStep = 5000, 100

// readProcfile reads lines NAME: COMMAND. The .env beside the file is for all programs, and its PORT is the first.
func (r *reader) readProcfile(data []byte) *Project {
	env, err := readEnv(filepath.Join(r.dir, ".env"), r.lookup)
	if err != nil && !os.IsNotExist(err) {
		r.fault(nil, "%v", err)
	}
	port := firstPort
	if text, ok := env["PORT"]; ok {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			r.fault(nil, ".env has the PORT %s, expected a number from 1 to 65535", quote(text))
		}
	}
	p := new(Project)
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := procfileLine.FindStringSubmatch(line)
		if m == nil {
			r.faultAt(i+1, "%s is not NAME: COMMAND", quote(line))
			continue
		}
		if other := p.Program(m[1]); other != nil {
			r.faultAt(i+1, "%s is there twice, also in line %d", m[1], other.Line)
			continue
		}
		program := newProgram(m[1], i+1)
		program.Argv = []string{"sh", "-c", m[2]}
		program.Port = port + portStep*len(p.Programs)
		maps.Copy(program.Env, env)
		program.Env["PORT"] = strconv.Itoa(program.Port)
		p.Programs = append(p.Programs, program)
	}
	if len(p.Programs) == 0 && len(r.errs) == 0 {
		r.fault(nil, "the file has no program: write lines such as web: ./server")
	}
	return p
}

// newProgram returns a program with all defaults.
func newProgram(name string, line int) *Program {
	return &Program{
		Name: name, Line: line,
		Env:         make(map[string]string),
		Restart:     protocol.Restart{Policy: "temporary"},
		StopSignal:  protocol.SignalTerminate,
		StopTimeout: DefaultStopTimeout,
		Namespace:   DefaultNamespace,
	}
}

// names are the files tried by Find, in this order.
var names = []string{"troupe.yaml", "troupe.yml", "process-compose.yaml", "process-compose.yml", "Procfile"}

// Find returns the path of the file in a directory.
func Find(dir string) (string, error) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s in %s: name a file", strings.Join(names, ", no "), dir)
}
