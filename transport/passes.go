package transport

import (
	"crypto/x509"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

var (
	// errRoles ends a connection whose client has other roles now.
	errRoles = &auth.Refusal{Text: "the roles of this client have changed"}
	// errExpired ends a connection whose credential has expired while a file could not be read.
	errExpired = &auth.Refusal{Text: "the credential has expired"}
)

// A server ends connections whose credentials have expired, or are no longer right. Without a
// change of a file a look costs one read of each file, and a comparison of times for each connection.

// shows keeps the credential with which v was let in. end is called at most once.
func (v *visitor) shows(credential auth.Visitor, end func(error)) {
	s := v.of
	if s.door == nil && s.relay == nil || s.relay == nil && v.identity.Guest != nil { // the session of a guest ends the connection, with the reason
		return
	}
	if credential.Header != nil { // the rest of the request is not kept
		credential.Header = http.Header{"Authorization": credential.Header["Authorization"]}
	}
	v.shown, v.end, v.until = credential, end, v.identity.Until
	if s.relay != nil {
		v.until = time.Time{} // the server that relays looks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.gone {
		return
	}
	s.held[v] = struct{}{}
	if !s.looking {
		s.looking = true
		time.AfterFunc(s.every, s.tick)
	}
}

// tick looks, and sets the timer for the next look if there are connections.
func (s *visitors) tick() {
	s.look(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looking = len(s.held) > 0; s.looking {
		time.AfterFunc(s.every, s.tick)
	}
}

// look ends the connections whose credentials are not right at the time now. Only one goroutine at a time may
// call look.
func (s *visitors) look(now time.Time) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()

	var edition uint64
	var issuers *x509.CertPool
	if s.relay != nil {
		edition = s.relay.Edition()
	} else {
		edition, issuers = s.door.Edition(), auth.Issuers(s.tls)
	}
	changed := edition != s.edition || issuers != s.issuers
	s.edition, s.issuers = edition, issuers
	for _, v := range all {
		expired := !v.until.IsZero() && !now.Before(v.until)
		if v.sure && !changed && !expired {
			continue
		}
		err := v.check(issuers, now)
		if err == nil && expired && !v.sure {
			err = errExpired
		}
		if err != nil {
			s.mu.Lock()
			delete(s.held, v)
			s.mu.Unlock()
			v.end(err)
		}
	}
}

// check returns why the connection has to end; nil: it may go on, or the server cannot tell at present.
func (v *visitor) check(issuers *x509.CertPool, now time.Time) error {
	if relay := v.of.relay; relay != nil {
		err := relay.Still(v.shown.TLS)
		v.sure = err == nil
		if err != nil {
			return &auth.Refusal{Text: err.Error()}
		}
		return nil
	}
	shown := v.shown
	shown.Issuers = issuers
	id, err := v.of.door.Identify(shown, now)
	v.sure = err == nil
	switch _, refused := err.(*auth.Refusal); {
	case refused:
		return err
	case err == nil && !id.Same(v.identity):
		return errRoles
	case err == nil:
		v.until = id.Until
	}
	return nil
}
