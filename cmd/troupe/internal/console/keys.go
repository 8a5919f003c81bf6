package console

import (
	"fmt"
	"strings"
)

// An Action is a request of the person at the keyboard to the console, and not to the program.
type Action int

// Actions.
const (
	Leave   Action = iota + 1 // end this command at once; the program goes on
	Detach                    // the same, after the server has promised to keep the program
	Suspend                   // stop this command until the shell continues it
	Help                      // list the keys
	Hangup                    // the terminal is gone: end this command; the program goes on
)

const (
	ctrlC = 0x03
	ctrlZ = 0x1a
)

// Keys are the keys that the console takes for itself. The zero value takes none.
type Keys struct {
	Escape byte   // begins an escape sequence after a newline, as ~ in ssh; 0: none
	Detach []byte // the detach sequence; empty: none
}

// ParseEscape returns the escape character for a flag: one printable character, or "none".
func ParseEscape(s string) (byte, error) {
	switch {
	case s == "none" || s == "":
		return 0, nil
	case len(s) == 1 && s[0] > ' ' && s[0] < 0x7f:
		return s[0], nil
	}
	return 0, fmt.Errorf("%q is not an escape character: write one printable ASCII character such as ~, or none", s)
}

// ParseDetach returns the detach sequence for a flag: keys separated by commas, each a character or
// ctrl- and a letter, such as "ctrl-p,ctrl-q"; or "none".
func ParseDetach(s string) ([]byte, error) {
	if s == "none" || s == "" {
		return nil, nil
	}
	var keys []byte
	for key := range strings.SplitSeq(s, ",") {
		name, isCtrl := strings.CutPrefix(strings.ToLower(key), "ctrl-")
		switch {
		case isCtrl && len(name) == 1 && (name[0] >= 'a' && name[0] <= 'z' || strings.Contains("@[\\]^_", name)):
			keys = append(keys, name[0]&0x1f)
		case !isCtrl && len(key) == 1 && key[0] > ' ' && key[0] < 0x7f:
			keys = append(keys, key[0])
		default:
			return nil, fmt.Errorf("%q is not a key in %q: write keys such as ctrl-p,ctrl-q or ctrl-a,d, or none", key, s)
		}
	}
	return keys, nil
}

// name returns how a person types the keys, such as "^P^Q".
func name(keys []byte) string {
	var s strings.Builder
	for _, k := range keys {
		if k < ' ' {
			s.WriteByte('^')
			k |= '@'
		}
		s.WriteByte(k)
	}
	return s.String()
}

// help lists the keys, a line each.
func (k Keys) help() []string {
	var lines []string
	if k.Escape != 0 {
		e := string(k.Escape)
		lines = append(lines,
			e+".   leave at once; the program goes on",
			e+"d   detach; the program goes on, and its output stays for a day after its end",
			e+"^Z  stop this command until fg; the program goes on",
			e+e+"   type "+e,
			"("+e+" is an escape character only after Enter)")
	}
	if len(k.Detach) > 0 {
		lines = append(lines, name(k.Detach)+"  detach")
	}
	return lines
}

// A parser finds the console's keys among the typed bytes. A key that may begin a sequence is held until
// the next key decides.
type parser struct {
	Keys
	midLine bool   // the last byte to the program was no newline
	escaped bool   // an Escape is held
	held    []byte // the beginning of Detach
}

// feed appends to out the bytes for the program, and calls act for each action.
func (p *parser) feed(out, typed []byte, act func(Action)) []byte {
	for _, c := range typed {
		if p.escaped {
			p.escaped = false
			if a := escapes[c]; a != 0 {
				act(a)
				continue
			}
			out = append(out, p.Escape)
			p.midLine = true
			if c == p.Escape {
				continue
			}
		} else if c == p.Escape && c != 0 && !p.midLine {
			out, p.escaped = p.release(out), true
			continue
		}
		p.midLine = c != '\r' && c != '\n'
		if len(p.Detach) == 0 {
			out = append(out, c)
			continue
		}
		p.held = append(p.held, c)
		for !strings.HasPrefix(string(p.Detach), string(p.held)) {
			out, p.held = append(out, p.held[0]), p.held[1:]
		}
		if len(p.held) == len(p.Detach) {
			p.held, p.midLine = nil, false
			act(Detach)
		}
	}
	return out
}

var escapes = map[byte]Action{'.': Leave, 'd': Detach, ctrlZ: Suspend, '?': Help}

// waits reports whether the beginning of the detach sequence is held.
func (p *parser) waits() bool { return len(p.held) > 0 }

// release appends the held beginning of the detach sequence to out.
func (p *parser) release(out []byte) []byte {
	out, p.held = append(out, p.held...), nil
	return out
}
