package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/internal/share"
)

// A Door decides who may connect. A door without any kind of credential lets nobody in.
type Door struct {
	Bearer       Checker         // checks bearer tokens; nil: they are refused
	Certificates CertificateName // which name of a client certificate counts; "": certificates are no credential
	UnixUsers    bool            // at a unix socket the user of the other side is a credential
	Shares       *share.Book     // has the tokens of guests; nil: there are none
	Roles        *Roles          // what identities may do beyond their own sessions; nil: nothing
}

// A Visitor is what a server knows of a client that wants to connect.
type Visitor struct {
	Header http.Header          // of the request; nil: the client speaks no HTTP
	Token  *string              // a bearer token that came without HTTP; nil: none. Only without Header
	TLS    *tls.ConnectionState // after the handshake; nil: no TLS
	// Issuers are the issuers of client certificates that count now. Nil: the handshake has just checked
	// the certificate.
	Issuers *x509.CertPool
	UID     *uint32 // the user at the other end of a unix socket, from the kernel; nil: unknown
}

// maxName is the length of the longest name of an identity, in bytes.
const maxName = 256

// ErrBadName means that a right credential names its client in a way that cannot be shown to people.
var ErrBadName = &Refusal{fmt.Sprintf("the name in the credential has more than %d bytes, or a character that cannot be shown", maxName)}

// misleads reports whether a character of a name misleads the readers of lists and logs. U+FFFD stands for
// bytes that are not UTF-8: different names with such bytes would be the same.
func misleads(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// Identify returns who a visitor is. If a visitor shows a bearer token, only the token counts, however
// right the other credentials are. The errors are those of a Checker.
func (d *Door) Identify(v Visitor, now time.Time) (Identity, error) {
	id, err := d.name(v, now)
	switch {
	case err != nil:
		return Identity{}, err
	case id.Guest != nil:
		return id, nil // nobody can give a guest a role
	}
	if len(id.Name) > maxName || !utf8.ValidString(id.Name) || strings.ContainsFunc(id.Name, misleads) {
		return Identity{}, ErrBadName
	}
	return d.Roles.grant(id)
}

// bearer returns the bearer token of a visitor.
func (v *Visitor) bearer() (string, error) {
	if v.Token != nil {
		return trimmed(*v.Token)
	}
	return FromHeader(v.Header)
}

// Edition returns another number after each change of a file that Identify depends on.
func (d *Door) Edition() (sum uint64) {
	if e, ok := d.Bearer.(Editions); ok {
		sum += e.Edition()
	}
	if d.Roles != nil {
		sum += d.Roles.file.Edition()
	}
	return sum
}

// name returns the identity of a visitor without the roles of a file.
func (d *Door) name(v Visitor, now time.Time) (Identity, error) {
	token, err := v.bearer()
	switch {
	case err == nil && d.Shares != nil && share.IsToken(token):
		guest, ok := d.Shares.Guest(token, now)
		if !ok {
			return Identity{}, ErrToken
		}
		return guest, nil
	case err == nil && d.Bearer != nil:
		return d.Bearer.Check(token, now)
	case err == nil:
		return Identity{}, ErrToken
	case err != ErrMissing:
		return Identity{}, err
	case d.Certificates != "" && v.TLS != nil && len(v.TLS.VerifiedChains) > 0:
		return d.Certificates.identify(v, now)
	case d.UnixUsers && v.UID != nil:
		return Identity{Name: fmt.Sprintf("uid:%d", *v.UID)}, nil
	}
	return Identity{}, ErrMissing
}
