package transport

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

var (
	// errRoles ends a connection whose client has other roles now.
	errRoles = &auth.Refusal{Text: "the roles of this client have changed"}
	// errExpired ends a connection whose credential has expired while a file could not be read.
	errExpired = &auth.Refusal{Text: "the credential has expired"}
)

// passes end connections of a server whose credentials have expired, or are no longer right. Without a
// change of a file a look costs one read of each file, and a comparison of times for each connection.
//
// Any goroutine may call the methods of passes.
type passes struct {
	door  *auth.Door
	tls   *tls.Config // nil: no TLS
	every time.Duration

	// Owned by look.
	edition uint64         // of the files of door at the last look
	issuers *x509.CertPool // of client certificates at the last look

	mu      sync.Mutex
	held    map[*pass]struct{}
	looking bool // tick runs, or its timer is set
}

// A pass is the credential of one connection. A nil pass is right for ever.
type pass struct {
	of      *passes
	visitor auth.Visitor
	end     func(error) // ends the connection, and does not block

	// Owned by look.
	id auth.Identity
	// sure means that the last look at the credential has found it right. Files may have changed since the
	// client was let in, and a look may find a file that cannot be read.
	sure bool
}

func newPasses(o *ServerOptions) *passes {
	return &passes{door: o.Door, tls: o.TLS, every: orDefault(o.CheckEvery, DefaultCheckEvery), held: make(map[*pass]struct{})}
}

// enter keeps the credential of a connection that was let in as id. end is called at most once.
func (s *passes) enter(v auth.Visitor, id auth.Identity, end func(error)) *pass {
	if s.door == nil || id.Guest != nil { // the session of a guest ends the connection, with the reason
		return nil
	}
	if v.Header != nil { // the rest of the request is not kept
		v.Header = http.Header{"Authorization": v.Header["Authorization"]}
	}
	p := &pass{of: s, visitor: v, end: end, id: id}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[p] = struct{}{}
	if !s.looking {
		s.looking = true
		time.AfterFunc(s.every, s.tick)
	}
	return p
}

// leave ends the use of a credential. leave may be called repeatedly.
func (p *pass) leave() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	delete(p.of.held, p)
}

// tick looks, and sets the timer for the next look if there are connections.
func (s *passes) tick() {
	s.look(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looking = len(s.held) > 0; s.looking {
		time.AfterFunc(s.every, s.tick)
	}
}

// look ends the connections whose credentials are not right at the time now. Only one goroutine at a time may
// call look.
func (s *passes) look(now time.Time) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()

	edition, issuers := s.door.Edition(), auth.Issuers(s.tls)
	changed := edition != s.edition || issuers != s.issuers
	s.edition, s.issuers = edition, issuers
	for _, p := range all {
		expired := !p.id.Until.IsZero() && !now.Before(p.id.Until)
		if p.sure && !changed && !expired {
			continue
		}
		err := p.check(issuers, now)
		if err == nil && expired && !p.sure {
			err = errExpired
		}
		if err != nil {
			p.leave()
			p.end(err)
		}
	}
}

// check returns why the connection has to end; nil: it may go on, or the server cannot tell at present.
func (p *pass) check(issuers *x509.CertPool, now time.Time) error {
	v := p.visitor
	v.Issuers = issuers
	id, err := p.of.door.Identify(v, now)
	p.sure = err == nil
	switch _, refused := err.(*auth.Refusal); {
	case refused:
		return err
	case err == nil && !id.Same(p.id):
		return errRoles
	case err == nil:
		p.id = id
	}
	return nil
}
