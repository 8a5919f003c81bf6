package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/internal/share"
)

// An Event becomes one line of the record. docs/AUDIT.md describes every member. No event has a member
// for the value of a variable, for input, output, a credential, a header or the content of a file.
type Event interface {
	kind() kind
	account() string // whose allowance the event takes from
}

// A kind is what the record does with an event: its name, and whether its line is written whatever else its account has caused.
type kind struct {
	name   string
	always bool
}

// Who says who caused an event. Actor names are unique for all time: one connection is one name.
type Who struct {
	Identity   string `json:"identity,omitempty"` // "": the server asks for no credential
	Account    string `json:"-"`                  // whose allowance the event takes from; "": that of Identity
	Connection string `json:"connection,omitempty"`
	Session    string `json:"session,omitempty"`
}

func (w Who) account() string             { return cmp.Or(w.Account, w.Identity) }
func (ServerStart) account() string       { return strangers }
func (ServerStop) account() string        { return strangers }
func (ConnectionRefused) account() string { return strangers }
func (Lost) account() string              { return strangers }
func (LeftOut) account() string           { return strangers }

type (
	// ServerStart is the first line of a server.
	ServerStart struct {
		Version     string `json:"version"`
		PID         int    `json:"pid"`
		Listen      string `json:"listen"`
		Containment string `json:"containment"`
		Full        string `json:"auditFull"` // refuse or continue
	}
	// ServerStop is the last line of a server.
	ServerStop struct {
		Error Text `json:"error,omitempty"` // names programs that could not be ended
	}

	// ConnectionAccepted is a connection with a right credential, or of a server without a Door.
	ConnectionAccepted struct {
		Who
		Remote    string `json:"remote"`
		Transport string `json:"transport"`
	}
	// ConnectionRefused is a connection without a right credential, or above a limit.
	ConnectionRefused struct {
		Remote string `json:"remote,omitempty"`
		Reason Text   `json:"reason"`
	}
	// ConnectionRelayed is a connection that another node of the cluster serves: its record has the other events.
	ConnectionRelayed struct {
		Who
		Remote string `json:"remote"`
		Node   string `json:"node"`            // its id
		Asked  Text   `json:"asked,omitempty"` // the session of resumeSessionId
	}
	// NodeDrain has a node of the cluster open no session, or takes that back.
	NodeDrain struct {
		Who
		Node       Text   `json:"node"`
		DurationMs uint64 `json:"durationMs,omitempty"`
		Cancel     bool   `json:"cancel,omitempty"`
	}
	// ConnectionEnded follows each ConnectionAccepted.
	ConnectionEnded struct {
		Who
		Reason     Text  `json:"reason"`
		DurationMs int64 `json:"durationMs"`
	}

	// SessionAttached is an attachment of a client to a session. How is opened, resumed, takenOver,
	// observed, controlled or joined (by a guest).
	SessionAttached struct {
		Who
		How   string `json:"-"`
		Name  Text   `json:"name,omitempty"`
		Owner string `json:"owner,omitempty"` // the identity that opened the session, if another
	}
	// SessionRefused is an initialize without success.
	SessionRefused struct {
		Who
		Asked  Text `json:"asked,omitempty"` // the session of resumeSessionId
		Role   Text `json:"role,omitempty"`
		Reason Text `json:"reason"`
	}
	// SessionEnded follows each opened session.
	SessionEnded struct {
		Who
		Reason     Text  `json:"reason"`
		DurationMs int64 `json:"durationMs"`
	}

	// ShareMade is the answer to session/share, without the token.
	ShareMade struct {
		Who
		Share      string `json:"share"`
		Access     string `json:"access"`
		Name       Text   `json:"name,omitempty"`
		DurationMs int64  `json:"durationMs"`
	}
	// ShareEnded follows each ShareMade, unless the session ends first. Who has revoked the share; if it has
	// expired, Who is the identity that opened the session.
	ShareEnded struct {
		Who
		Share  string `json:"share"`
		Reason Text   `json:"reason"`
	}

	// Process says which process an event is about.
	Process struct {
		Who
		Process Text `json:"process"` // the client's id
		Group   Text `json:"group,omitempty"`
		Run     int  `json:"run,omitempty"`
	}
	// ProcessStart is written before the program runs.
	ProcessStart struct {
		Process
		Argv      List `json:"argv"`
		Dir       Text `json:"dir"`
		Variables List `json:"variables"` // the names of the environment
		TTY       bool `json:"tty"`
		Probe     List `json:"probe,omitempty"`    // a command that the server runs beside the program, again and again
		Snapshot  bool `json:"snapshot,omitempty"` // the server may run the shell before, to learn its state

		User       *User `json:"user,omitempty"`  // nil: the user of the server
		Umask      Text  `json:"umask,omitempty"` // "": the umask of the server
		NoNewPrivs bool  `json:"noNewPrivs,omitempty"`
	}
	// User is a user of the system, as whom a program runs, or as whom files are changed.
	User struct {
		Name Text   `json:"name"` // as the client or the policy names the user; may be a number
		UID  uint32 `json:"uid"`
		GID  uint32 `json:"gid"`
	}
	// ProcessStarted follows a ProcessStart.
	ProcessStarted struct {
		Process
		PID         int    `json:"pid"`
		Containment string `json:"containment"`
	}
	// ProcessRefused follows a ProcessStart if the program does not run, and stands for a start that the
	// server did not try. Argv, Dir and RequestedUser are those of such a start.
	ProcessRefused struct {
		Process
		Tried         bool `json:"-"` // after a ProcessStart
		Argv          List `json:"argv,omitempty"`
		Dir           Text `json:"dir,omitempty"`
		RequestedUser Text `json:"requestedUser,omitempty"`
		Reason        Text `json:"reason"`
	}
	// ProcessEnded follows each ProcessStarted.
	ProcessEnded struct {
		Process
		ExitCode   int    `json:"exitCode"`
		Signal     string `json:"signal,omitempty"`
		Reason     Text   `json:"reason,omitempty"` // why the server ended the program
		TimedOut   bool   `json:"timedOut,omitempty"`
		OOMKilled  bool   `json:"oomKilled,omitempty"`
		DurationMs int64  `json:"durationMs"`
	}

	// Request is a client's request about programs that run, or about a session, as it is passed on.
	Request struct {
		Who
		Method  string  `json:"method"`
		Process Text    `json:"process,omitempty"`
		Group   Text    `json:"group,omitempty"`
		Signal  Text    `json:"signal,omitempty"`
		GraceMs *uint64 `json:"graceMs,omitempty"`
		Tree    bool    `json:"tree,omitempty"`
		Refused Text    `json:"refused,omitempty"` // why the client may not send the request
	}
	// FileChange is a request that changes files, after its end.
	FileChange struct {
		Who
		Method string `json:"method"`
		Path   Text   `json:"path,omitempty"`
		From   Text   `json:"from,omitempty"`   // of fs/copy
		Handle Text   `json:"handle,omitempty"` // of fs/open, fs/close
		User   *User  `json:"user,omitempty"`   // nil: the user of the server, or the call was refused before
		Error  Text   `json:"error,omitempty"`  // "": done
	}
	// HTTPRequest is a request sent for a client.
	HTTPRequest struct {
		Who
		Method string `json:"method"`
		Origin Text   `json:"origin"` // scheme, host and port
	}
	// ProgramStart is a start by a sister API. A session and a ProcessStart follow.
	ProgramStart struct {
		Who
		API     string `json:"api"`
		Program Text   `json:"program,omitempty"` // the client's name for it
	}

	// Lost stands for lines that could not be written.
	Lost struct {
		Lines int64     `json:"lines"`
		Since time.Time `json:"since"`
		Error Text      `json:"error"`
	}
)

func (ServerStart) kind() kind        { return kind{"server.start", true} }
func (ServerStop) kind() kind         { return kind{"server.stop", true} }
func (ConnectionAccepted) kind() kind { return kind{"connection.accepted", false} }
func (ConnectionRefused) kind() kind  { return kind{"connection.refused", false} }
func (ConnectionEnded) kind() kind    { return kind{"connection.ended", false} }
func (e SessionAttached) kind() kind  { return kind{"session." + e.How, false} }
func (SessionRefused) kind() kind     { return kind{"session.refused", false} }
func (SessionEnded) kind() kind       { return kind{"session.ended", false} }
func (ShareMade) kind() kind          { return kind{"share.made", false} }
func (ShareEnded) kind() kind         { return kind{"share.ended", false} }
func (ProcessStart) kind() kind       { return kind{"process.start", true} }
func (ProcessStarted) kind() kind     { return kind{"process.started", true} }
func (e ProcessRefused) kind() kind   { return kind{"process.refused", e.Tried} }
func (ProcessEnded) kind() kind       { return kind{"process.ended", true} }
func (Request) kind() kind            { return kind{"request", false} }
func (e FileChange) kind() kind       { return kind{"file.change", e.Error == ""} }
func (ConnectionRelayed) kind() kind  { return kind{"connection.relayed", false} }
func (NodeDrain) kind() kind          { return kind{"node.drain", true} }
func (HTTPRequest) kind() kind        { return kind{"http.request", true} }
func (ProgramStart) kind() kind       { return kind{"program.start", false} }
func (Lost) kind() kind               { return kind{"audit.lost", true} }
func (LeftOut) kind() kind            { return kind{"audit.leftOut", true} }

const (
	// maxText bounds a text of a client, in bytes.
	maxText = 4 << 10
	// maxList bounds a list in JSON, in bytes.
	maxList = 16 << 10
)

// Text is a text that a client may have chosen. Text is cut off after 4 KiB.
type Text string

// MarshalText implements encoding.TextMarshaler.
func (t Text) MarshalText() ([]byte, error) {
	if len(t) > maxText {
		t = t[:maxText] + "…"
	}
	return []byte(t), nil
}

// List is a list that a client may have chosen. Beyond 16 KiB the list ends with "…".
type List []string

// MarshalJSON implements json.Marshaler.
func (l List) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("[")
	e := encoder(b)
	for i, s := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		before := b.Len()
		if len(s) < maxList {
			e.Encode(s) // a string can always be encoded
			text := inert(bytes.TrimSuffix(b.Bytes()[before:], []byte("\n")))
			b.Truncate(before)
			b.Write(text)
		}
		if b.Len() == before || b.Len() > maxList {
			b.Truncate(before)
			b.WriteString(`"…"`)
			break
		}
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// Names returns the names in an environment of NAME=value.
func Names(environment []string) List {
	names := make(List, len(environment))
	for i, variable := range environment {
		names[i], _, _ = strings.Cut(variable, "=")
	}
	return names
}

func encoder(b *bytes.Buffer) *json.Encoder {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return e
}

// encode returns v in JSON, with a newline at the end. Every type of this package can be encoded.
func encode(v any) []byte {
	var b bytes.Buffer
	if err := encoder(&b).Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// line returns the line of an event. Tokens of shares are left out, wherever a client has put them.
func line(e Event, at time.Time) []byte {
	members := encode(e)[1:]
	out := make([]byte, 0, 100+len(members))
	out = append(out, `{"time":"`...)
	out = at.UTC().AppendFormat(out, "2006-01-02T15:04:05.000000Z")
	out = append(append(out, `","event":"`...), e.kind().name...)
	out = append(out, '"')
	if members[0] != '}' {
		out = append(out, ',')
	}
	return inert(share.Redact(append(out, members...)))
}

// inert escapes every character with which a name could control the terminal of a reader. encoding/json
// escapes only those below U+0020: some terminals obey U+009B as they obey ESC [, and U+202E turns the
// rest of a line around.
func inert(line []byte) []byte {
	controls := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if bytes.IndexFunc(line, controls) < 0 {
		return line
	}
	out := make([]byte, 0, len(line)+100)
	for _, r := range string(line) {
		if !controls(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", unit)
		}
	}
	return out
}
