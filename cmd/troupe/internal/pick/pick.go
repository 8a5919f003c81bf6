// Package pick finds the session and the process for a short text from a person, such as web or build/web.
package pick

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// ErrUnknown means: no session or process has the name.
var ErrUnknown = errors.New("unknown")

// A Ref names a process on a server.
type Ref struct {
	Session string // id
	Process string // id
}

// The sessions that the functions below get are those of Client.Sessions, with protocol.DetailProcesses or more.

// FindSession returns the session for a text: a name, an id, or the beginning of an id. A name counts first, then an
// id, then the beginning of an id.
func FindSession(all []protocol.SessionDetails, text string) (*protocol.SessionDetails, error) {
	found := sessionsNamed(all, text)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, unknown("session", text, Sessions(all, ""), "troupe sessions list")
	}
	var ids []string
	for _, s := range found {
		ids = append(ids, unique(all, s.SessionID))
	}
	return nil, ambiguous("session", text, ids)
}

// FindProcess returns the process for a text. The text is PROCESS, the id of a process in any session, or
// SESSION/PROCESS with a session as in FindSession. If several sessions have a process with this id, processes alive
// count before ended processes, and of ended processes the newest counts.
func FindProcess(all []protocol.SessionDetails, text string) (Ref, error) {
	var alive, ended []candidate
	add := func(s *protocol.SessionDetails, id string) {
		for i := range s.List {
			p := &s.List[i]
			one := candidate{Ref{s.SessionID, p.ProcessID}, p.StartedAtMs}
			switch {
			case p.ProcessID != id || slices.Contains(alive, one) || slices.Contains(ended, one):
			case Ended(&p.ProcessInfo):
				ended = append(ended, one)
			default:
				alive = append(alive, one)
			}
		}
	}
	for i := range all {
		add(&all[i], text)
	}
	for i := range len(text) {
		if text[i] == '/' { // names of sessions and ids of processes may have slashes, too
			for _, s := range sessionsNamed(all, text[:i]) {
				add(s, text[i+1:])
			}
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
	started int64 // in milliseconds since the Unix epoch; 0: not yet, or unknown
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
func FindProcesses(all []protocol.SessionDetails, text string) ([]Ref, error) {
	one, err := FindProcess(all, text)
	if !errors.Is(err, ErrUnknown) || !strings.ContainsAny(text, "*?[") {
		return []Ref{one}, err
	}
	var alive, ended []Ref
	for ref, p := range processes(all) {
		is, bad := path.Match(text, p.ProcessID)
		full, _ := path.Match(text, Label(all, ref.Session)+"/"+p.ProcessID)
		switch {
		case bad != nil:
			return nil, unknownName{fmt.Sprintf("%q is not a pattern: * stands for characters, ? for one, and [ab] for one of them", text)}
		case !is && !full:
		case Ended(&p.ProcessInfo):
			ended = append(ended, ref)
		default:
			alive = append(alive, ref)
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
func Name(all []protocol.SessionDetails, r Ref) string {
	if found, err := FindProcess(all, r.Process); err == nil && found == r {
		return r.Process
	}
	return Label(all, r.Session) + "/" + r.Process
}

// processes returns all processes of the sessions.
func processes(all []protocol.SessionDetails) iter.Seq2[Ref, *protocol.ProcessInfoResult] {
	return func(yield func(Ref, *protocol.ProcessInfoResult) bool) {
		for i := range all {
			for j := range all[i].List {
				if p := &all[i].List[j]; !yield(Ref{all[i].SessionID, p.ProcessID}, p) {
					return
				}
			}
		}
	}
}

func sessionsNamed(all []protocol.SessionDetails, text string) (found []*protocol.SessionDetails) {
	if text == "" {
		return nil
	}
	for _, matches := range []func(*protocol.SessionDetails) bool{
		func(s *protocol.SessionDetails) bool { return s.Name == text },
		func(s *protocol.SessionDetails) bool { return s.SessionID == text },
		func(s *protocol.SessionDetails) bool { return strings.HasPrefix(s.SessionID, text) },
	} {
		for i := range all {
			if matches(&all[i]) {
				found = append(found, &all[i])
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// Label returns a short text with which FindSession finds the session: its name if no other session has the same
// name, or else the beginning of its id.
func Label(all []protocol.SessionDetails, id string) string {
	for i := range all {
		if s := &all[i]; s.SessionID == id && s.Name != "" && len(sessionsNamed(all, s.Name)) == 1 {
			return s.Name
		}
	}
	return unique(all, id)
}

// unique returns the shortest unique beginning of a session's id, with at least 8 characters. No name of a session
// equals the beginning.
func unique(all []protocol.SessionDetails, id string) string {
	for n := min(8, len(id)); n < len(id); n++ {
		if found := sessionsNamed(all, id[:n]); len(found) == 1 && found[0].SessionID == id {
			return id[:n]
		}
	}
	return id
}

// Sessions returns the labels of sessions beginning with a text, sorted, for completion.
func Sessions(all []protocol.SessionDetails, begin string) (labels []string) {
	for i := range all {
		id := all[i].SessionID
		if label := Label(all, id); strings.HasPrefix(label, begin) {
			labels = append(labels, label)
		} else if begin != "" && strings.HasPrefix(id, begin) {
			labels = append(labels, id)
		}
	}
	slices.Sort(labels)
	return labels
}

// Processes returns the names of processes beginning with a text, sorted, for completion. FindProcess finds a process
// by each name: by the id of the process if the id is unambiguous, or else by SESSION/PROCESS. With a slash in begin,
// all names are SESSION/PROCESS.
func Processes(all []protocol.SessionDetails, begin string) (texts []string) {
	for ref := range processes(all) {
		full := Label(all, ref.Session) + "/" + ref.Process
		name := Name(all, ref)
		switch {
		case strings.HasPrefix(name, begin):
			texts = append(texts, name)
		case strings.Contains(begin, "/") && strings.HasPrefix(full, begin):
			texts = append(texts, full)
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), cmp.Compare(a, b)) })
	return texts
}

// An unknownName tells a person the fault of a name.
type unknownName struct{ text string }

func (e unknownName) Error() string   { return e.text }
func (e unknownName) Is(o error) bool { return o == ErrUnknown }

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
	return unknownName{fmt.Sprintf("no %s %q: %s", kind, text, advice)}
}

func ambiguous(kind, text string, candidates []string) error {
	return fmt.Errorf("%q names several %s: write one of %s", text, show.Plural(kind), list(candidates))
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
