package connection

import (
	"reflect"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A method is an entry in the table of the requests and notifications of clients. By default the
// method is a request, allowed after the handshake, and changes something, and the answer may wait for
// a program or for the client.
type method struct {
	name string
	handler
	// app is the handler for the app-server wire. The zero handler: as on the other wire. A method with
	// app alone does not exist on the other wire.
	app handler
	// observer says whether an observer may send the method. The zero permission denies.
	observer permission
	// guests says which guests may send the method. The zero guests denies.
	guests guests
	// repeat says how a repeated request is recognized if it changes something. "": by a member
	// of its params (startToken, writeId, requestId).
	repeat string
	// record says what the audit log has of a method that changes something. The zero record: the request, as it is passed on
	// to the session or the process.
	record record
	// server: the answer waits for the server alone, neither for a program nor for the client.
	server bool
	// early: allowed before the end of the handshake.
	early        bool
	notification bool
	// experimental: clients of the app-server need the capability experimentalApi.
	experimental bool

	section *section // set by index
}

// A section of the table has methods with several facts in common.
type section struct {
	family  string // as the errors of the handshake name it; "": no such method
	prefix  string // an unknown method that begins so is of the family, too; "": none is
	about   string // whose state the methods concern: connection, server, session, process, group, file, program
	repeat  string // of a method whose repeat is ""
	record  record // of a method whose record is asRequest
	wire    wire   // appServer: the exec-server does not have the methods
	methods []method
}

// record says what the audit log has of a method.
type record int

const (
	asRequest  record = iota
	byHandler         // events that the handler, or an actor, records
	unrecorded        // nothing: it is input, or has to do with the connection alone
)

// guests says which clients with the token of a share may send a method.
type guests int

const (
	noGuest  guests = iota
	anyGuest        // who may do what an observer may
	typists         // who may do what RoleTypist may
)

func (g guests) String() string { return [...]string{"no", "yes", "typists"}[g] }

// permission says whether an observer may send a method.
type permission struct {
	text  string                // in PROTOCOL.md; "": no
	may   func(params any) bool // nil: never
	reads bool                  // the method changes nothing
}

var (
	// reads is for methods without side effects.
	reads = permission{"yes", func(any) bool { return true }, true}
	// ownerReads is for methods without side effects that only the owner and controllers may send.
	ownerReads = permission{reads: true}
	// toRead is for fs/open: only the modes replace and write change something.
	toRead = permission{"to read", func(params any) bool { return !params.(protocol.FsOpenParams).Mode.Writes() }, false}
	// toWatch is for process/subscribe: with hold, the program may have to wait for the viewer.
	toWatch = permission{"without `hold`", func(params any) bool { return !params.(protocol.ProcessSubscribeParams).Hold }, true}
	// byHandle is for fs/writeBlock. Because of toRead an observer has no handle for writing.
	byHandle = permission{"yes", reads.may, false}
)

// allows reports whether a client with a role may send a request with these params.
func (m *method) allows(role protocol.Role, guest bool, params any) bool {
	switch {
	case guest && m.guests == noGuest:
		return false
	case guest && m.guests == typists:
		return role == protocol.RoleTypist
	case !guest && role.Commands():
		return true
	}
	return m.observer.allows(params)
}

// String is whether an observer may send the method, in the words of the documents.
func (p permission) String() string {
	if p.text == "" {
		return "no"
	}
	return p.text
}

// allows reports whether an observer may send a request with these params.
func (p permission) allows(params any) bool { return p.may != nil && p.may(params) }

const (
	execFamily = "exec"
	// repeatBySession: the request ends its session, and nobody can resume an ended session.
	repeatBySession = "session"
	// repeatByShare: a share ends once.
	repeatByShare = "shareId"
	// repeatsAnew: the request is done again.
	repeatsAnew = "nothing"
	// repeatsNotAtAll: the request is about a file, or about something that ends with the
	// connection. Nothing recognizes a repeat.
	repeatsNotAtAll = "connection"
)

// table has all methods. A test compares the list in docs/PROTOCOL.md with table.
var table = []section{
	{family: execFamily, about: "connection", methods: []method{
		{name: protocol.MethodInitialize, handler: handles(params, (*connection).initialize).gives(protocol.InitializeResult{}), app: handles(params, (*connection).initializeApp).gives(protocol.InitializeResult{}), early: true, observer: reads, guests: anyGuest},
		{name: protocol.MethodInitialized, handler: handles(ignored, (*connection).initialized), notification: true, observer: reads, guests: anyGuest},
	}},
	{family: "environment info", about: "server", methods: []method{
		{name: protocol.MethodEnvironmentInfo, handler: handles(params, (*connection).environmentInfo).gives(protocol.EnvironmentInfo{}), observer: reads},
		{name: protocol.MethodEnvironmentStatus, handler: handles(ignored, (*connection).environmentStatus).gives(protocol.EnvironmentStatusResult{}), observer: reads, guests: anyGuest},
	}},
	{family: execFamily, about: "server", methods: []method{
		{name: protocol.MethodServerInfo, handler: handles(ignored, (*connection).tellServer).gives(protocol.ServerInfoResult{}, protocol.AboutServer{}), observer: reads},
		{name: protocol.MethodServerEvents, handler: handles(optional, (*connection).readEvents).gives(protocol.ServerEventsResult{}), observer: reads, guests: anyGuest},
	}},
	{family: execFamily, about: "session", methods: []method{
		{name: protocol.MethodSessionInfo, handler: ofSession(ignored[message.SessionInfoRequest]).gives(protocol.SessionInfoResult{}), observer: reads, guests: anyGuest},
		{name: protocol.MethodSessionList, handler: handles(optional, (*connection).listSessions).gives(protocol.SessionListResult{}, protocol.SessionProcessesResult{}, protocol.SessionDetailsResult{}), observer: reads, guests: anyGuest, server: true},
		{name: protocol.MethodSessionClose, handler: handles(optional[protocol.SessionCloseParams], (*connection).closeSession).gives(protocol.Empty{}), repeat: repeatBySession, server: true},
		{name: protocol.MethodSessionUpdate, handler: ofSession(params[protocol.SessionUpdateParams]).gives(protocol.Empty{}), server: true},
		{name: protocol.MethodSessionAck, handler: handles(params, (*connection).acknowledge), notification: true, record: unrecorded},
		{name: protocol.MethodSessionShare, handler: ofSession(params[protocol.SessionShareParams]).gives(protocol.SessionShareResult{}), repeat: repeatsAnew, server: true, record: byHandler},
		{name: protocol.MethodSessionShares, handler: ofSession(ignored[message.SharesRequest]).gives(protocol.SessionSharesResult{}), observer: ownerReads, server: true},
		{name: protocol.MethodSessionUnshare, handler: ofSession(params[protocol.SessionUnshareParams]).gives(protocol.SessionUnshareResult{}), repeat: repeatByShare, server: true, record: byHandler},
		{name: protocol.MethodProcessList, handler: handles(optional, (*connection).listProcesses).gives(protocol.ProcessListResult{}), observer: reads, guests: anyGuest},
		{name: protocol.MethodGroupList, handler: ofSession(ignored[message.GroupListRequest]).gives(protocol.GroupListResult{}), observer: reads, guests: anyGuest},
	}},

	{family: execFamily, about: "process", methods: []method{
		{name: protocol.MethodProcessStart, handler: handles(startParams, (*connection).startProcess).gives(protocol.ProcessStartResult{}), server: true, record: byHandler},
		{name: protocol.MethodProcessRead, handler: handles(params, (*connection).readProcess).gives(protocol.ProcessReadResult{}), observer: reads, guests: anyGuest},
		{name: protocol.MethodProcessSubscribe, handler: handles(params, (*connection).subscribeProcess).gives(protocol.ProcessInfo{}), observer: toWatch, guests: anyGuest},
		// If there is no such process, these three answer as the peer does, and the others fail.
		{name: protocol.MethodProcessWrite, handler: ofProcess[protocol.ProcessWriteParams](protocol.ProcessWriteResult{Status: protocol.WriteUnknownProcess}).gives(protocol.ProcessWriteResult{}), guests: typists, record: unrecorded},
		{name: protocol.MethodProcessSignal, handler: ofProcess[protocol.ProcessSignalParams](protocol.Empty{}).gives(protocol.Empty{})},
		{name: protocol.MethodProcessTerminate, handler: ofProcess[protocol.ProcessTerminateParams](protocol.ProcessTerminateResult{Running: false}).gives(protocol.ProcessTerminateResult{})},
		{name: protocol.MethodProcessCloseStdin, handler: ofProcess[protocol.ProcessCloseStdinParams](nil).gives(protocol.Empty{})},
		{name: protocol.MethodProcessResize, handler: ofProcess[protocol.ProcessResizeParams](nil).gives(protocol.Empty{}), guests: typists, record: unrecorded},
		{name: protocol.MethodProcessWait, handler: ofProcess[protocol.ProcessWaitParams](nil).gives(protocol.ProcessWaitResult{}), observer: reads, guests: anyGuest},
		{name: protocol.MethodProcessRestart, handler: ofProcess[protocol.ProcessRestartParams](nil).gives(protocol.Empty{})},
		{name: protocol.MethodProcessSetRestart, handler: ofProcess[protocol.ProcessSetRestartParams](nil).gives(protocol.Empty{})},
		{name: protocol.MethodProcessInfo, handler: ofProcess[protocol.ProcessInfoParams](nil).gives(protocol.ProcessInfoResult{}), observer: reads, guests: anyGuest},
	}},
	{family: execFamily, about: "group", methods: []method{
		{name: protocol.MethodGroupStart, handler: handles(groupParams, (*connection).startGroup).gives(protocol.GroupStartResult{}), server: true, record: byHandler},
		{name: protocol.MethodGroupStop, handler: ofSession(params[protocol.GroupStopParams]).gives(protocol.Empty{})},
	}},

	{family: "filesystem", prefix: "fs", about: "file", repeat: repeatsNotAtAll, record: byHandler, methods: []method{
		{name: protocol.MethodFsReadFile, handler: ofFiles(params, readFile).gives(protocol.FsReadFileResult{}), app: ofFiles(plain, readFile).gives(protocol.FsReadFileResult{}), observer: reads},
		{name: protocol.MethodFsOpen, handler: ofFiles(params, openFile).gives(protocol.FsOpenResult{}), observer: toRead},
		{name: protocol.MethodFsReadBlock, handler: ofHandles(params, readBlock).gives(protocol.FsReadBlockResult{}), observer: reads},
		{name: protocol.MethodFsWriteBlock, handler: ofHandles(params, writeBlock).gives(protocol.Empty{}), observer: byHandle, record: unrecorded},
		{name: protocol.MethodFsClose, handler: ofHandles(params, closeFile).gives(protocol.Empty{}), observer: reads},
		{name: protocol.MethodFsWriteFile, handler: ofFiles(writeFileParams, writeFile).gives(protocol.Empty{}), app: ofFiles(plainWriteFile, writeFile).gives(protocol.Empty{})},
		{name: protocol.MethodFsCreateDirectory, handler: ofFiles(params, createDirectory).gives(protocol.Empty{}), app: ofFiles(plain, createDirectory).gives(protocol.Empty{})},
		{name: protocol.MethodFsGetMetadata, handler: ofFiles(params, getMetadata).gives(protocol.FsGetMetadataResult{}), app: ofFiles(plain, getAppMetadata).gives(protocol.FsAppMetadataResult{}), observer: reads},
		{name: protocol.MethodFsCanonicalize, handler: ofFiles(params, canonicalize).gives(protocol.FsCanonicalizeResult{}), observer: reads},
		{name: protocol.MethodFsReadDirectory, handler: ofFiles(params, readDirectory).gives(protocol.FsReadDirectoryResult{}), app: ofFiles(plain, readDirectory).gives(protocol.FsReadDirectoryResult{}), observer: reads},
		{name: protocol.MethodFsWalk, handler: ofFiles(params, walk).gives(protocol.FsWalkResult{}), observer: reads},
		{name: protocol.MethodFsRemove, handler: ofFiles(params, remove).gives(protocol.Empty{}), app: ofFiles(plain, remove).gives(protocol.Empty{})},
		{name: protocol.MethodFsCopy, handler: ofFiles(params, copyFile).gives(protocol.Empty{}), app: ofFiles(plain, copyFile).gives(protocol.Empty{})},
		{name: protocol.MethodFsStat, handler: ofFiles(params, statEntry).gives(protocol.FsEntry{}), observer: reads},
		{name: protocol.MethodFsList, handler: ofFiles(params, list).gives(protocol.FsListResult{}), observer: reads},
		{name: protocol.MethodFsRename, handler: ofFiles(params, rename).gives(protocol.Empty{})},
		{name: protocol.MethodFsSymlink, handler: ofFiles(params, symlink).gives(protocol.Empty{})},
		{name: protocol.MethodFsSetMetadata, handler: ofFiles(params, setMetadata).gives(protocol.Empty{})},
		{name: protocol.MethodFsWatchMissing, handler: ofHandles(params, watchMissing).gives(protocol.FsWatchMissingResult{}), observer: reads},
		{name: protocol.MethodFsWatch, app: handles(plain, (*connection).watchFile).gives(protocol.FsWatchResult{}), observer: reads},
		{name: protocol.MethodFsUnwatch, app: handles(params, (*connection).unwatchFile).gives(protocol.Empty{}), observer: reads},
	}},
	{family: "environment config", about: "server", methods: []method{
		{name: protocol.MethodEnvironmentConfigRead, handler: ofMachine(params, readConfig).gives(protocol.EnvironmentConfigReadResult{}), observer: reads},
	}},
	{family: "capability discovery", about: "server", methods: []method{
		{name: protocol.MethodCapabilityRootsDiscover, handler: ofMachine(params, discoverRoots).gives(protocol.CapabilityRootsDiscoverResult{}), observer: reads},
		{name: protocol.MethodCapabilitiesDiscover, handler: ofMachine(params, discoverInstalled).gives(protocol.CapabilitiesDiscoverResult{}), observer: reads},
	}},
	{family: "http", prefix: "http", about: "connection", repeat: repeatsNotAtAll, record: byHandler, methods: []method{
		{name: protocol.MethodHTTPRequest, handler: handles(params, (*connection).httpRequest).gives(protocol.HTTPRequestResult{})},
	}},

	{family: execFamily, about: "program", repeat: repeatsNotAtAll, record: byHandler, wire: appServer, methods: []method{
		{name: protocol.MethodProcessSpawn, handler: ofProgram(params[protocol.ProcessSpawnParams]).gives(protocol.Empty{}), experimental: true},
		{name: protocol.MethodProcessWriteStdin, handler: ofProgram(params[protocol.ProcessWriteStdinParams]).gives(protocol.Empty{}), experimental: true, record: unrecorded},
		{name: protocol.MethodProcessResizePty, handler: ofProgram(params[protocol.ProcessResizePtyParams]).gives(protocol.Empty{}), experimental: true, record: unrecorded},
		{name: protocol.MethodProcessKill, handler: ofProgram(params[protocol.ProcessKillParams]).gives(protocol.Empty{}), experimental: true},
		{name: protocol.MethodCommandExec, handler: ofPrograms[protocol.FirstExecParams, protocol.CommandExecParams]("argv").gives(protocol.CommandExecResult{}, protocol.FirstExecResult{})},
		{name: protocol.MethodCommandExecWrite, handler: ofPrograms[protocol.FirstExecWriteParams, protocol.CommandExecWriteParams]("sessionId").gives(protocol.Empty{}, protocol.FirstExecWriteResult{}), record: unrecorded},
		{name: protocol.MethodCommandExecResize, handler: ofProgram(params[protocol.CommandExecResizeParams]).gives(protocol.Empty{}), record: unrecorded},
		{name: protocol.MethodCommandExecTerminate, handler: ofPrograms[protocol.FirstExecTerminateParams, protocol.CommandExecTerminateParams]("sessionId").gives(protocol.Empty{}, protocol.FirstExecTerminateResult{})},
	}},
}

// A handler decodes the params of a method, and handles a message with them. The functions below
// make handlers.
type handler struct {
	params  []any // a zero value of each type that decode returns
	results []any // a zero value of each type that a result has; none: handle is for a notification
	decode  func(protocol.Codec, []byte) (any, *protocol.Error)
	handle  func(*connection, actor.Context, inbound)
	first   string // params with this member are of the first exec-server wire; "": none are
}

// A decoder decodes params into p, which is zero before. It fails with the error that answers the
// request. Params are no values on the stack: the goroutine of each connection decodes, and keeps the
// stack that decoding once took.
type decoder[P any] func(c protocol.Codec, payload []byte, p *P) *protocol.Error

// handles returns the handler that has do handle the params that decode returns.
func handles[P any](decode decoder[P], do func(*connection, actor.Context, inbound, P)) handler {
	return handler{
		params: []any{*new(P)},
		decode: decode.any,
		handle: func(c *connection, ctx actor.Context, in inbound) { do(c, ctx, in, in.params.(P)) },
	}
}

// gives returns h with the results that it answers with.
func (h handler) gives(results ...any) handler {
	h.results = results
	return h
}

// any is decode for params of any type.
func (decode decoder[P]) any(c protocol.Codec, payload []byte) (any, *protocol.Error) {
	p := new(P)
	if err := decode(c, payload, p); err != nil {
		return nil, err
	}
	return *p, nil
}

// ofProcess returns the handler that passes requests on to their process. If there is no such
// process, the answer is unknown; nil: an error.
func ofProcess[P protocol.AboutProcess](unknown any) handler {
	return handles(params, func(c *connection, ctx actor.Context, in inbound, p P) {
		c.askProcess(ctx, in, pending{process: p.Process()}, unknown)
	})
}

// ofSession returns the handler that passes requests on to the session.
func ofSession[P any](decode decoder[P]) handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, _ P) {
		c.ask(ctx, c.session, in, pending{})
	})
}

// ofFiles returns the handler of requests about the filesystem. prepare says what the call does.
func ofFiles[P interface {
	Asked() (*protocol.Sandbox, error)
}](decode decoder[P], prepare func(*fileCall, P) error) handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, p P) {
		c.fileRequest(ctx, in, func(call *fileCall) error {
			if err := call.confine(p); err != nil {
				return err
			}
			return prepare(call, p)
		})
	})
}

// ofHandles is ofFiles for methods whose sandbox says nothing: the sandbox of fs/open counts, and what fs/watchMissing
// tells. (sandbox wire §1.1.)
func ofHandles[P any](decode decoder[P], prepare func(*fileCall, P) error) handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, p P) {
		c.fileRequest(ctx, in, func(call *fileCall) error { return prepare(call, p) })
	})
}

// ofMachine is ofFiles for methods that no jail serves.
func ofMachine[P interface{ Unsupported() error }](decode decoder[P], prepare func(*fileCall, P) error) handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, p P) {
		c.fileRequest(ctx, in, func(call *fileCall) error {
			if err := p.Unsupported(); err != nil {
				return err
			}
			return prepare(call, p)
		})
	})
}

// ofProgram returns the handler of requests of the sister APIs.
func ofProgram[P any](decode decoder[P]) handler {
	return handles(decode, func(c *connection, ctx actor.Context, in inbound, _ P) { c.command(ctx, in) })
}

// ofPrograms returns the handler of a method that two sister APIs have. The params are of the first
// exec-server wire if they have that member.
func ofPrograms[First, Else any](member string) handler {
	decode := func(c protocol.Codec, payload []byte, p *any) (err *protocol.Error) {
		if protocol.HasMember(c, payload, member) {
			*p, err = decoder[First](params[First]).any(c, payload)
		} else {
			*p, err = decoder[Else](params[Else]).any(c, payload)
		}
		return err
	}
	h := ofProgram(decode)
	h.params, h.first = []any{*new(First), *new(Else)}, member
	return h
}

// methods has the table by name.
var methods = index(table)

func index(table []section) map[string]*method {
	all := make(map[string]*method)
	for i := range table {
		s := &table[i]
		for j := range s.methods {
			m := &s.methods[j]
			m.section = s
			if m.repeat == "" {
				m.repeat = s.repeat
			}
			if m.record == asRequest {
				m.record = s.record
			}
			all[m.name] = m
		}
	}
	return all
}

// methodOf returns the entry of a method. An unknown method has no handler, and may have no family.
func methodOf(name string) *method {
	if m := methods[name]; m != nil {
		return m
	}
	first, _, _ := strings.Cut(name, "/")
	for i := range table {
		if s := &table[i]; s.prefix != "" && s.prefix == first {
			return &method{section: s}
		}
	}
	return &method{section: new(section)}
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

// Table returns all methods, in the order of the documents.
func Table() (rows []Row) {
	for i := range table {
		for j := range table[i].methods {
			m := &table[i].methods[j]
			rows = append(rows, Row{
				Name: m.name, About: m.section.about, Observer: m.observer.String(), Guest: m.guests.String(),
				Repeat: repeatOf(m), Audit: m.audit(), App: m.appForm(),
				Params: paramsOf(m), Results: resultsOf(m),
			})
		}
	}
	return rows
}

// resultsOf returns a zero value of each type that a result of a method has.
func resultsOf(m *method) []any {
	results := slices.Concat(m.results, m.app.results)
	if _, ok := paramsOf(m)[0].(interface{ ForRun() uint64 }); ok {
		results = append(results, protocol.OtherRun{})
	}
	return results
}

// repeatOf returns how the server recognizes a repeat of a method: by a member of its params, or as its entry says.
func repeatOf(m *method) string {
	if m.observer.reads || m.notification {
		return "–"
	}
	for _, member := range []string{"startToken", "writeId", "requestId"} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(paramsOf(m)[0])) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == member && m.repeat == "" {
				return member
			}
		}
	}
	return m.repeat
}

func (m *method) audit() string {
	switch {
	case m.observer.reads || m.record == unrecorded:
		return "–"
	case m.record == byHandler:
		return "own events"
	}
	return "request"
}

// appForm says whether the app-server has the method, with paths and names in a form of its own.
func (m *method) appForm() string {
	switch {
	case m.experimental:
		return "with `experimentalApi`"
	case m.section.wire == appServer || m.app.handle != nil:
		return "yes"
	}
	return "–"
}

// Methods returns all methods, and for each a zero value of every type that its params are
// decoded to.
func Methods() map[string][]any {
	all := make(map[string][]any, len(methods))
	for name, m := range methods {
		all[name] = paramsOf(m)
	}
	return all
}

func paramsOf(m *method) []any { return slices.Concat(m.params, m.app.params) }
