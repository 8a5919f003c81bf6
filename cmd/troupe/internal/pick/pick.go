// Package pick finds the session and the process for a short text from a person, such as web or build/web.
package pick

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
)

var (
	// ErrUnknown means: no session or process has the name.
	ErrUnknown = errors.New("unknown")
	// ErrAmbiguous means: several sessions or processes have the name.
	ErrAmbiguous = errors.New("ambiguous")
)

// A Session is a session of the server, with its processes.
type Session struct {
	ID, Name  string
	Processes []Process
}

// A Process is a process of a Session.
type Process struct {
	ID    string
	Ended bool // the process has ended, and only its output is left

	Started int64 // when, in milliseconds since the Unix epoch; 0: not yet, or unknown
}

// A Ref names a process on a server.
type Ref struct {
	Session string // id
	Process string // id
}

// FindSession returns the session for a text: a name, an id, or the beginning of an id. A name counts first, then an
// id, then the beginning of an id.
func FindSession(all []Session, text string) (Session, error) {
	found := sessionsNamed(all, text)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Session{}, unknown("session", text, Sessions(all, ""), "troupe sessions list")
	}
	var ids []string
	for _, s := range found {
		ids = append(ids, unique(all, s))
	}
	return Session{}, ambiguous("session", text, ids)
}

// FindProcess returns the process for a text. The text is PROCESS, the id of a process in any session, or
// SESSION/PROCESS with a session as in FindSession. If several sessions have a process with this id, processes alive
// count before ended processes, and of ended processes the newest counts.
func FindProcess(all []Session, text string) (Ref, error) {
	var alive, ended []candidate
	add := func(sessions []Session, id string) {
		for _, s := range sessions {
			for _, p := range s.Processes {
				one := candidate{Ref{s.ID, p.ID}, p.Started}
				switch {
				case p.ID != id || slices.Contains(alive, one) || slices.Contains(ended, one):
				case p.Ended:
					ended = append(ended, one)
				default:
					alive = append(alive, one)
				}
			}
		}
	}
	add(all, text)
	for i := range len(text) {
		if text[i] == '/' { // names of sessions and ids of processes may have slashes, too
			add(sessionsNamed(all, text[:i]), text[i+1:])
		}
	}
	found := alive
	if len(found) == 0 {
		found = newest(ended)
	}
	switch len(found) {
	case 1:
		return found[0].Ref, nil
	case 0:
		return Ref{}, unknown("process", text, Processes(all, ""), "troupe ps --all")
	}
	var labels []string
	for _, one := range found {
		labels = append(labels, Label(all, one.Session)+"/"+one.Process)
	}
	return Ref{}, ambiguous("process", text, labels)
}

// A candidate is a process that a text may mean.
type candidate struct {
	Ref
	started int64
}

// newest returns the candidates that have started last.
func newest(all []candidate) (found []candidate) {
	for _, one := range all {
		if len(found) > 0 && one.started > found[0].started {
			found = nil
		}
		if len(found) == 0 || one.started == found[0].started {
			found = append(found, one)
		}
	}
	return found
}

// FindProcesses returns the process that FindProcess finds, or else the processes whose id, or SESSION/PROCESS, matches
// the text as a pattern of path.Match, such as web*: those alive, or, without any, the ended ones.
func FindProcesses(all []Session, text string) ([]Ref, error) {
	one, err := FindProcess(all, text)
	if !errors.Is(err, ErrUnknown) || !strings.ContainsAny(text, "*?[") {
		return []Ref{one}, err
	}
	var alive, ended []Ref
	for _, s := range all {
		label := Label(all, s.ID)
		for _, p := range s.Processes {
			is, bad := path.Match(text, p.ID)
			full, _ := path.Match(text, label+"/"+p.ID)
			switch {
			case bad != nil:
				return nil, nameError{fmt.Sprintf("%q is not a pattern: * stands for characters, ? for one, and [ab] for one of them", text), ErrUnknown}
			case !is && !full:
			case p.Ended:
				ended = append(ended, Ref{s.ID, p.ID})
			default:
				alive = append(alive, Ref{s.ID, p.ID})
			}
		}
	}
	switch {
	case len(alive) > 0:
		return alive, nil
	case len(ended) > 0:
		return ended, nil
	}
	return nil, err
}

// Name returns the shortest text with which FindProcess finds a process: its id, or SESSION/PROCESS.
func Name(all []Session, r Ref) string {
	if found, err := FindProcess(all, r.Process); err == nil && found == r {
		return r.Process
	}
	return Label(all, r.Session) + "/" + r.Process
}

func sessionsNamed(all []Session, text string) []Session {
	if text == "" {
		return nil
	}
	for _, match := range []func(Session) bool{
		func(s Session) bool { return s.Name == text },
		func(s Session) bool { return s.ID == text },
		func(s Session) bool { return strings.HasPrefix(s.ID, text) },
	} {
		if found := slices.DeleteFunc(slices.Clone(all), func(s Session) bool { return !match(s) }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// Label returns a short text with which FindSession finds the session: its name if no other session has the same
// name, or else the beginning of its id.
func Label(all []Session, id string) string {
	for _, s := range all {
		if s.ID == id && s.Name != "" && len(sessionsNamed(all, s.Name)) == 1 {
			return s.Name
		}
	}
	return unique(all, Session{ID: id})
}

// unique returns the shortest unique beginning of a session's id, with at least 8 characters. No name of a session
// equals the beginning.
func unique(all []Session, s Session) string {
	for n := min(8, len(s.ID)); n < len(s.ID); n++ {
		if found := sessionsNamed(all, s.ID[:n]); len(found) == 1 && found[0].ID == s.ID {
			return s.ID[:n]
		}
	}
	return s.ID
}

// Sessions returns the labels of sessions beginning with a text, sorted, for completion.
func Sessions(all []Session, begin string) []string {
	var labels []string
	for _, s := range all {
		if label := Label(all, s.ID); strings.HasPrefix(label, begin) {
			labels = append(labels, label)
		} else if begin != "" && strings.HasPrefix(s.ID, begin) {
			labels = append(labels, s.ID)
		}
	}
	slices.Sort(labels)
	return labels
}

// Processes returns the names of processes beginning with a text, sorted, for completion. FindProcess finds a process
// by each name: by the id of the process if the id is unambiguous, or else by SESSION/PROCESS. With a slash in begin,
// all names are SESSION/PROCESS.
func Processes(all []Session, begin string) []string {
	var texts []string
	for _, s := range all {
		for _, p := range s.Processes {
			full := Label(all, s.ID) + "/" + p.ID
			name := Name(all, Ref{s.ID, p.ID})
			switch {
			case strings.HasPrefix(name, begin):
				texts = append(texts, name)
			case strings.Contains(begin, "/") && strings.HasPrefix(full, begin):
				texts = append(texts, full)
			}
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), cmp.Compare(a, b)) })
	return texts
}

// A nameError tells a person the fault of a name. A nameError wraps ErrUnknown or ErrAmbiguous.
type nameError struct {
	text string
	kind error
}

func (e nameError) Error() string { return e.text }
func (e nameError) Unwrap() error { return e.kind }

// most is how many names an error lists.
const most = 8

func unknown(kind, text string, there []string, where string) error {
	advice := "there is none"
	if near := show.Nearest(text, there); near != "" {
		advice = fmt.Sprintf("did you mean %s?", show.Harmless(near))
	} else if len(there) > 0 {
		advice = "there are " + list(there) + "; see " + where
		if len(there) == 1 {
			advice = "there is only " + list(there)
		}
	}
	return nameError{fmt.Sprintf("no %s %q: %s", kind, text, advice), ErrUnknown}
}

func ambiguous(kind, text string, candidates []string) error {
	return nameError{fmt.Sprintf("%q names several %s: write one of %s", text, show.Plural(kind), list(candidates)), ErrAmbiguous}
}

func list(names []string) string {
	var b strings.Builder
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(show.Harmless(n))
	}
	return b.String()
}
