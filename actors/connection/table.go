package connection

import (
	"reflect"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Method is a row in the table of the requests and notifications of clients. By default the
// method is a request, allowed after the handshake, and changes something, and the answer may wait for
// a program or for the client.
type Method struct {
	Name string
	Handler
	// Observer says whether an observer may send the method. The zero Permission denies.
	Observer Permission
	// Guests says which guests may send the method. The zero Guests denies.
	Guests Guests
	// Repeat says how a repeated request is recognized if it changes something. "": by a member
	// of its params (startToken, writeId, requestId).
	Repeat string
	// Record says what the audit log has of a method that changes something. The zero Record: the request, as it is passed on
	// to the session or the process.
	Record Record
	// Server: the answer waits for the server alone, neither for a program nor for the client.
	Server bool
	// Early: allowed before the end of the handshake.
	Early        bool
	Notification bool
	// Needs is the capability without which clients of the dialect may not send the method. "": none. The function of the row checks the capability.
	Needs string

	form    *Handler // for the dialect; nil: as on our wire. A method with a form alone does not exist on our wire
	section *Section // set by NewTable
}

// A Section of the table has methods with several facts in common.
type Section struct {
	Family    string // as the errors of the handshake name it; "": no such method
	Prefix    string // an unknown method that begins so is of the family, too; "": none is
	About     string // whose state the methods concern: connection, server, session, process, group, file, program
	Repeat    string // of a method whose Repeat is ""
	Record    Record // of a method whose Record is AsRequest
	OfDialect bool   // the methods belong to the dialect, and ours has them in the same form
	Methods   []Method
}

// Record says what the audit log has of a method.
type Record int

// What the audit log has of a method.
const (
	AsRequest  Record = iota
	ByHandler         // events that the handler, or an actor, records
	Unrecorded        // nothing: it is input, or has to do with the connection alone
)

// Guests says which clients with the token of a share may send a method.
type Guests int

const (
	noGuest  Guests = iota
	anyGuest        // who may do what an observer may
	typists         // who may do what RoleTypist may
)

func (g Guests) String() string { return [...]string{"no", "yes", "typists"}[g] }

// Permission says whether an observer may send a method.
type Permission struct {
	text  string                // in PROTOCOL.md; "": no
	may   func(params any) bool // nil: never
	reads bool                  // the method changes nothing
}

// Reads is for methods without side effects.
var Reads = Permission{"yes", func(any) bool { return true }, true}

var (
	// ownerReads is for methods without side effects that only the owner and controllers may send.
	ownerReads = Permission{reads: true}
	// toRead is for fs/open: only the modes replace and write change something.
	toRead = Permission{"to read", func(params any) bool { return !params.(protocol.FsOpenParams).Mode.Writes() }, false}
	// toWatch is for process/subscribe: with hold, the program may have to wait for the viewer.
	toWatch = Permission{"without `hold`", func(params any) bool { return !params.(protocol.ProcessSubscribeParams).Hold }, true}
	// byHandle is for fs/writeBlock. Because of toRead an observer has no handle for writing.
	byHandle = Permission{"yes", Reads.may, false}
)

// allows reports whether a client with a role may send a request with these params.
func (m *Method) allows(role protocol.Role, guest bool, params any) bool {
	switch {
	case guest && m.Guests == noGuest:
		return false
	case guest && m.Guests == typists:
		return role == protocol.RoleTypist
	case !guest && role.Commands():
		return true
	}
	return m.Observer.allows(params)
}

// String is whether an observer may send the method, in the words of the documents.
func (p Permission) String() string {
	if p.text == "" {
		return "no"
	}
	return p.text
}

// allows reports whether an observer may send a request with these params.
func (p Permission) allows(params any) bool { return p.may != nil && p.may(params) }

const (
	// ExecFamily is the family of methods whose family the exec-server does not name.
	ExecFamily = "exec"
	// repeatBySession: the request ends its session, and nobody can resume an ended session.
	repeatBySession = "session"
	// repeatByShare: a share ends once.
	repeatByShare = "shareId"
	// repeatsAnew: the request is done again.
	repeatsAnew = "nothing"
	// RepeatsNotAtAll is the Repeat of a request about a file, or about something that ends with the
	// connection. Nothing recognizes a repeat.
	RepeatsNotAtAll = "connection"
)

// A Handler decodes the params of a method, and handles a message with them. The functions below
// make handlers.
type Handler struct {
	params  []any // a zero value of each type that decode returns
	results []any // a zero value of each type that a result has; none: handle is for a notification
	decode  func(protocol.Codec, []byte) (any, *protocol.Error)
	handle  func(Request)
	reword  func(any) any // of a form: the result in the words of the dialect; nil: the result as it is
	dialect Dialect       // of a form; nil: the handler is no form
	ours    string        // before initialize, params with this member show that the client speaks our wire; "": none do
}

// A Decoder decodes params into p, which is zero before. It fails with the error that answers the
// request. Params are no values on the stack: the goroutine of each connection decodes, and keeps the
// stack that decoding once took.
type Decoder[P any] func(c protocol.Codec, payload []byte, p *P) *protocol.Error

// any is decode for params of any type.
func (decode Decoder[P]) any(c protocol.Codec, payload []byte) (any, *protocol.Error) {
	p := new(P)
	if err := decode(c, payload, p); err != nil {
		return nil, err
	}
	return *p, nil
}

// Handles returns the handler that has do handle the params that decode returns.
func Handles[P any](decode Decoder[P], do func(Request, P)) Handler {
	return Handler{
		params: []any{*new(P)},
		decode: decode.any,
		handle: func(r Request) { do(r, r.in.params.(P)) },
	}
}

// HandlesEither returns the handler of a method with params of two types: of First if they have that member, also before initialize, else of
// Other.
func HandlesEither[First, Other any](member string, do func(Request, any)) Handler {
	h := Handles(func(c protocol.Codec, payload []byte, p *any) (err *protocol.Error) {
		if protocol.HasMember(c, payload, member) {
			*p, err = Decoder[First](Params[First]).any(c, payload)
		} else {
			*p, err = Decoder[Other](Params[Other]).any(c, payload)
		}
		return err
	}, do)
	h.params, h.ours = []any{*new(First), *new(Other)}, member
	return h
}

// FormOf returns the form of a method: decode translates its params to ours, and reword translates the answer to a call about files. Nil reword:
// the answer is ours.
func FormOf[P any](decode Decoder[P], reword func(any) any) Handler {
	return Handler{params: []any{*new(P)}, decode: decode.any, reword: reword}
}

// Takes returns h with the params that it decodes, where they are not those that its function gets.
func (h Handler) Takes(params ...any) Handler {
	h.params = params
	return h
}

// Gives returns h with the results that it answers with.
func (h Handler) Gives(results ...any) Handler {
	h.results = results
	return h
}

// handles is Handles for methods of the connection.
func handles[P any](decode Decoder[P], do func(*connection, actor.Context, inbound, P)) Handler {
	return Handles(decode, func(r Request, p P) { do(r.c, r.ctx, r.in, p) })
}

// ofProcess returns the handler that passes requests on to their process. If there is no such
// process, the answer is unknown; nil: an error.
func ofProcess[P protocol.AboutProcess](unknown any) Handler {
	return handles(Params, func(c *connection, ctx actor.Context, in inbound, p P) {
		c.askProcess(ctx, in, p.Process(), pending{}, unknown)
	})
}

// ofSession returns the handler that passes requests on to the session.
func ofSession[P any](decode Decoder[P]) Handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, _ P) {
		c.ask(ctx, c.session, in, pending{})
	})
}

// ofFiles returns the handler of requests about the filesystem. prepare says what the call does.
func ofFiles[P interface {
	Asked() (*protocol.Sandbox, error)
}](decode Decoder[P], prepare func(*fileCall, P) error) Handler {
	return ofHandles(decode, func(call *fileCall, p P) error {
		if err := call.confine(p); err != nil {
			return err
		}
		return prepare(call, p)
	})
}

// ofHandles is ofFiles for methods whose sandbox says nothing: the sandbox of fs/open counts, and what fs/watchMissing
// tells. (sandbox wire §1.1.)
func ofHandles[P any](decode Decoder[P], prepare func(*fileCall, P) error) Handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, p P) {
		c.fileRequest(ctx, in, func(call *fileCall) error { return prepare(call, p) })
	})
}

// A Table has the methods that clients of a connection may send. NewTable makes tables.
type Table struct {
	sections []Section
	methods  map[string]*Method
	dialect  Dialect // nil: there is none
}

// NewTable returns a table with the methods of this package, those of more, and what d has of them; d may be nil.
func NewTable(d Dialect, more ...Section) *Table {
	t := &Table{sections: slices.Concat(methods, more), methods: make(map[string]*Method), dialect: d}
	var forms map[string]Handler
	if d != nil {
		forms = d.Forms()
	}
	for i := range t.sections {
		s := &t.sections[i]
		s.Methods = slices.Clone(s.Methods)
		for j := range s.Methods {
			m := &s.Methods[j]
			m.section = s
			if m.Repeat == "" {
				m.Repeat = s.Repeat
			}
			if m.Record == AsRequest {
				m.Record = s.Record
			}
			if form, ok := forms[m.Name]; ok {
				m.form = &form
				form.dialect = d
				if form.handle == nil {
					form.handle = m.handle
				}
				if form.results == nil {
					form.results = m.results
				}
			}
			t.methods[m.Name] = m
		}
	}
	return t
}

// method returns the row of a method. An unknown method has no handler, and may have no family.
func (t *Table) method(name string) *Method {
	if m := t.methods[name]; m != nil {
		return m
	}
	first, _, _ := strings.Cut(name, "/")
	for i := range t.sections {
		if s := &t.sections[i]; s.Prefix != "" && s.Prefix == first {
			return &Method{section: s}
		}
	}
	return &Method{section: new(Section)}
}

// all calls visit for each method, in the order of the documents.
func (t *Table) all(visit func(*Method)) {
	for i := range t.sections {
		for j := range t.sections[i].Methods {
			visit(&t.sections[i].Methods[j])
		}
	}
}

// A Row is what the table says of a method to documents and tests.
type Row struct {
	Name            string
	About           string // whose state the method concerns: connection, server, session, process, group, file, program
	Observer, Guest string // whether an observer or a guest may send the method: no, yes, or under which condition
	Repeat          string // how the server recognizes a repeat; "–": it may be repeated; "": nobody has said
	Audit           string // what the audit log has of it: a request, own events, or "–"
	App             string // whether the app-server of codex has a form of the method
	Params, Results []any  // a zero value of each type that they have; a notification has no result
}

// Rows returns all methods, in the order of the documents.
func (t *Table) Rows() (rows []Row) {
	t.all(func(m *Method) {
		rows = append(rows, Row{
			Name: m.Name, About: m.section.About, Observer: m.Observer.String(), Guest: m.Guests.String(),
			Repeat: repeatOf(m), Audit: m.audit(), App: m.appForm(),
			Params: paramsOf(m), Results: resultsOf(m),
		})
	})
	return rows
}

// forms returns the handlers of a method: on our wire, and in the dialect if it has a form of its own.
func (m *Method) forms() []*Handler {
	if m.form == nil {
		return []*Handler{&m.Handler}
	}
	return []*Handler{&m.Handler, m.form}
}

// paramsOf returns a zero value of every type that the params of a method are decoded to.
func paramsOf(m *Method) (params []any) {
	for _, h := range m.forms() {
		params = append(params, h.params...)
	}
	return params
}

// resultsOf returns a zero value of each type that a result of a method has.
func resultsOf(m *Method) (results []any) {
	for _, h := range m.forms() {
		results = append(results, h.results...)
	}
	if _, ok := paramsOf(m)[0].(interface{ ForRun() uint64 }); ok {
		results = append(results, protocol.OtherRun{})
	}
	return results
}

// repeatOf returns how the server recognizes a repeat of a method: by a member of its params, or as its row says.
func repeatOf(m *Method) string {
	if m.Observer.reads || m.Notification {
		return "–"
	}
	for _, member := range []string{"startToken", "writeId", "requestId"} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(paramsOf(m)[0])) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == member && m.Repeat == "" {
				return member
			}
		}
	}
	return m.Repeat
}

func (m *Method) audit() string {
	switch {
	case m.Observer.reads || m.Record == Unrecorded:
		return "–"
	case m.Record == ByHandler:
		return "own events"
	}
	return "request"
}

// appForm says whether the app-server has the method, with paths and names in a form of its own.
func (m *Method) appForm() string {
	switch {
	case m.Needs != "":
		return "with `" + m.Needs + "`"
	case m.ofDialect(dialect):
		return "yes"
	}
	return "–"
}

// Params returns all methods, and for each a zero value of every type that its params are decoded to.
func (t *Table) Params() map[string][]any {
	all := make(map[string][]any, len(t.methods))
	for name, m := range t.methods {
		all[name] = paramsOf(m)
	}
	return all
}
