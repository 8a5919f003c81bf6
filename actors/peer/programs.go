package peer

import (
	"os"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/peer/command"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
)

// programs are the running programs of the sister APIs on a connection. The zero programs are none.
type programs struct {
	named  map[programKey]*program // a name is taken until the writer has the end
	serial uint64                  // of the newest without a name

	translator *dialect.Translator // nil before the first request
}

// programKey names a program.
type programKey struct {
	api, name string
	serial    uint64 // of a program without a name; else 0
}

// program is a running program as its connection sees the program.
type program struct {
	*connection.Program
	of      *programs
	key     programKey
	dialect dialect.Dialect
}

// Left answers a call that the actor has left.
func (p *program) Left(call any) (any, *protocol.Error) {
	return p.dialect.Unknown(p.key.name, call.(dialect.Call))
}

// Lost is the notification of an end that nobody saw.
func (p *program) Lost() (method string, params any) {
	return p.dialect.Ended(p.key.name, dialect.End{Code: dialect.LostCode})
}

// Forget frees the name.
func (p *program) Forget() { delete(p.of.named, p.key) }

// ofProgram returns the handler of requests of the sister APIs.
func ofProgram[P any]() connection.Handler {
	return connection.Handles(connection.Params, func(r connection.Request, p P) { ofSister(r, p) })
}

// ofEither returns the handler of a method that two sister APIs have. The params are of the first
// exec-server wire if they have that member.
func ofEither[First, Other any](member string) connection.Handler {
	return connection.HandlesEither[First, Other](member, ofSister)
}

// ofSister handles a request of the sister APIs.
func ofSister(r connection.Request, params any) {
	s := stateOf(r)
	if needs := r.Needs(); needs != "" && r.InDialect() && !s.experimental {
		r.Fail(protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "%s requires %s capability", r.Method(), needs))
		return
	}
	switch asked, ok, err := s.programs.translate(r, params); {
	case !ok:
		r.Fail(protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "no sister API has requests with %T", params))
	case err != nil:
		r.Fail(err)
	case asked.Start != nil:
		s.programs.start(r, asked.Start)
	default:
		s.programs.call(r, asked)
	}
}

// translate reads a request.
func (ps *programs) translate(r connection.Request, params any) (dialect.Request, bool, *protocol.Error) {
	if ps.translator == nil {
		ps.translator = &dialect.Translator{Cwd: r.Env().Info.Cwd, Env: serverEnv, MaxMessage: r.MaxMessage()}
	}
	return ps.translator.Request(params)
}

// serverEnv is the server's environment without its secrets.
func serverEnv() map[string]string { return child.WithoutSecrets(os.Environ()) }

// call passes a call to its program, or answers the call if the program has ended.
func (ps *programs) call(r connection.Request, asked dialect.Request) {
	p := ps.named[programKey{api: asked.Dialect.API(), name: asked.Name}]
	if p != nil && !p.Over() {
		if asked.Call.Kill || asked.Call.CloseStdin {
			r.Env().Audit.Put(audit.Request{Who: r.Who(), Method: r.Method(), Process: audit.Text(asked.Name)})
		}
		r.Call(p.Program, asked.Call)
		return
	}
	answer := asked.Dialect.Over
	if p == nil {
		answer = asked.Dialect.Unknown
	}
	if result, err := answer(asked.Name, asked.Call); err != nil {
		r.Fail(err)
	} else {
		r.Respond(result)
	}
}

func (ps *programs) start(r connection.Request, spec *dialect.Spec) {
	key := programKey{api: spec.Dialect.API(), name: spec.Name}
	if spec.Unnamed {
		ps.serial++
		key.serial = ps.serial
	}
	if ps.named[key] != nil {
		r.Fail(spec.Dialect.Duplicate(spec.Name))
		return
	}
	e := r.Env()
	e.Audit.Put(audit.ProgramStart{Who: r.Who(), API: spec.Dialect.API(), Program: audit.Text(spec.Name)})
	if ps.named == nil {
		ps.named = make(map[programKey]*program)
	}
	p := &program{of: ps, key: key, dialect: spec.Dialect}
	ps.named[key] = p
	p.Program = r.Start(p, spec.Dialect.Started(spec.Name) != nil, func(connected, troupe *actor.PID) *actor.Props {
		return command.New(e, command.Options{
			Spec:       spec,
			From:       r.Owner(),
			Identity:   r.Identity(),
			Troupe:     troupe,
			Connection: connected,
			Pull:       connection.Pull,
		})
	})
}
