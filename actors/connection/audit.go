package connection

import (
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the events of the audit log about a connection and its requests.

// who returns the client of the connection.
func (c *connection) who() audit.Who {
	i := c.about.Identity
	return audit.Who{Identity: i.Name, Account: i.Account(), Connection: c.name, Session: c.sessionID}
}

func (c *connection) recordAccepted() {
	c.env.Audit.Put(audit.ConnectionAccepted{Who: c.who(), Remote: c.conn.RemoteAddr(), Transport: c.about.Transport})
}

// because notes why the connection ends. The first reason counts.
func (c *connection) because(reason string) {
	if c.endReason == "" {
		c.endReason = reason
	}
}

// recordEnd records the end of the connection. A repeated recordEnd does nothing.
func (c *connection) recordEnd() {
	if c.born.IsZero() {
		return
	}
	c.because("stopped by the server")
	c.env.Audit.Put(audit.ConnectionEnded{Who: c.who(), Reason: audit.Text(c.endReason), DurationMs: time.Since(c.born).Milliseconds()})
	c.born = time.Time{}
}

// recordNotAttached records that a client got no session.
func (c *connection) recordNotAttached(g greeting.Greeting, err *protocol.Error) {
	e := audit.SessionRefused{Who: c.who(), Role: audit.Text(g.Role), Reason: audit.Text(err.Message)}
	if asked := g.ResumeSessionID; asked != nil {
		e.Asked = audit.Text(*asked)
	}
	c.env.Audit.Put(e)
}

// recordRequest records a request that is passed on, if the table has no other record of its method.
func (c *connection) recordRequest(in inbound) {
	if c.env.Audit == nil || in.entry.Observer.reads || in.entry.Record != AsRequest {
		return
	}
	e := audit.Request{Who: c.who(), Method: in.method}
	if p, ok := in.params.(protocol.AboutProcess); ok {
		e.Process = audit.Text(p.Process())
	}
	switch p := in.params.(type) {
	case protocol.ProcessSignalParams:
		e.Signal = audit.Text(p.Signal)
	case protocol.ProcessTerminateParams:
		e.GraceMs, e.Tree = p.GraceMs, p.Tree
	case protocol.GroupStopParams:
		e.Group = audit.Text(p.GroupID)
	}
	c.env.Audit.Put(e)
}

// refusal returns a function that records why the client may not send a method. Any goroutine may call it.
func (c *connection) refusal(method string) func(reason string) {
	log, who := c.env.Audit, c.who()
	return func(reason string) {
		log.Put(audit.Request{Who: who, Method: method, Refused: audit.Text(reason)})
	}
}

// recordFile returns the function that records the end of a call, on the goroutine of the call: the record
// has a change even if the connection has ended meanwhile. A call without a change is recorded if the policy
// refuses it.
func (c *connection) recordFile(call *fileCall) func(error) {
	if c.env.Audit == nil {
		return func(error) {}
	}
	log := c.env.Audit
	if call.change == nil {
		refused := c.refusal(call.in.method)
		return func(err error) {
			if errors.Is(err, rules.ErrRefused) {
				refused(rules.ErrRefused.Error())
			}
		}
	}
	e := *call.change
	e.Who, e.Method = c.who(), call.in.method
	if e.Path == "" { // fs/close: calls with the same handle run one after the other
		file, _ := c.files.handles.Find(string(e.Handle))
		if e.Path = audit.Text(file.Target); e.Path == "" {
			return func(error) {}
		}
	}
	return func(err error) {
		e.User = call.as
		switch {
		case errors.Is(err, rules.ErrRefused):
			e.Error = audit.Text(rules.ErrRefused.Error())
		case err != nil:
			e.Error = audit.Text(call.in.fileError(err).Message)
		}
		log.Put(e)
	}
}
