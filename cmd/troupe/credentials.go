//go:build unix

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/webconsole/sso"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// credentialFlags are the flags of troupe serve that say who may connect.
type credentialFlags struct {
	tokens       string
	jwtKeys      string
	jwtSecret    string
	jwt          auth.SignedOptions
	unixUsers    bool
	roles        string
	maxShareTime time.Duration
	tls          auth.TLSFiles
	certificates string
	oidc         sso.Options
	provider     *sso.Provider // by open; nil: there is none

	peer peerFlags
}

// peerFlags are flags with the names and rules of exec-server (exec-server wire §1).
type peerFlags struct {
	mode, tokenFile, tokenDigest, secretFile, issuer, audience string
	skew                                                       *time.Duration // nil: 30 s
}

const (
	capabilityToken   = "capability-token"
	signedBearerToken = "signed-bearer-token"
)

// files returns the files with secrets, and the files that say whom the server trusts. The certificate is neither: programs may
// need it to connect.
func (c *credentialFlags) files() []string {
	return []string{c.tokens, c.jwtKeys, c.jwtSecret, c.roles, c.tls.Key, c.tls.ClientCAs, c.peer.tokenFile, c.peer.secretFile, c.oidc.SecretFile}
}

// open returns the door and the TLS configuration of the flags. Both may be nil.
func (c *credentialFlags) open(listen string, log *slog.Logger) (*auth.Door, *tls.Config, error) {
	checkers, err := c.checkers()
	if err != nil {
		return nil, nil, err
	}
	c.warnOfOthers(log)
	door := &auth.Door{UnixUsers: c.unixUsers}
	if len(checkers) > 0 {
		door.Bearer = auth.AnyOf(checkers...)
	}
	config, err := c.tlsConfig(listen, door.Bearer == nil, log)
	if err != nil {
		return nil, nil, err
	}
	if c.tls.ClientCAs != "" {
		switch door.Certificates = auth.CertificateName(c.certificates); door.Certificates {
		case auth.CommonName, auth.DNSName, auth.URIName, auth.EmailName:
		default:
			return nil, nil, fmt.Errorf("--tls-client-name %q: choose cn, dns, uri or email", c.certificates)
		}
	}
	switch {
	case c.maxShareTime < 0 || c.maxShareTime > 0 && c.maxShareTime < time.Millisecond:
		return nil, nil, fmt.Errorf("--max-share-time %v: choose 1ms or more, or 0 for no shares", c.maxShareTime)
	case c.unixUsers && !strings.HasPrefix(listen, "unix://"):
		return nil, nil, fmt.Errorf("--auth-unix-users is for --listen unix://PATH, not for %s", listen)
	case *door == auth.Door{} && c.roles != "":
		return nil, nil, errors.New("--auth-roles-file needs a flag that says who may connect, such as --auth-token-file")
	case *door == auth.Door{}:
		return nil, config, nil
	case !strings.Contains(listen, "://") || listen == "stdio://":
		return nil, nil, fmt.Errorf("--listen %s asks for no credential: leave the flags about credentials out", listen)
	}
	if c.maxShareTime > 0 {
		door.Shares = share.NewBook(c.maxShareTime)
	}
	if c.roles != "" {
		if door.Roles, err = auth.OpenRoles(c.roles); err != nil {
			return nil, nil, fmt.Errorf("--auth-roles-file: %w", err)
		}
	}
	if at, err := netip.ParseAddrPort(strings.TrimPrefix(listen, "ws://")); err == nil && !at.Addr().IsLoopback() {
		log.Warn("whoever can read the network can read tokens, and all that clients type and see: listen at wss://IP:PORT, unless only a proxy with TLS reaches this address", "listen", listen)
	}
	return door, config, nil
}

// warnOfOthers logs which files of the flags other users of the machine can read or change. The server takes them:
// on some machines every file has such a mode.
func (c *credentialFlags) warnOfOthers(log *slog.Logger) {
	for _, path := range []string{c.tokens, c.jwtSecret, c.tls.Key, c.peer.tokenFile, c.peer.secretFile, c.oidc.SecretFile} {
		if target.OthersMay(0o006, path) {
			log.Warn("other users of this machine can use the secrets of a file: chmod o= FILE", "file", path)
		}
	}
	for _, path := range []string{c.jwtKeys, c.roles, c.tls.Certificate, c.tls.ClientCAs} {
		if target.OthersMay(0o002, path) {
			log.Warn("other users of this machine can change who may do what: chmod o-w FILE", "file", path)
		}
	}
}

func (c *credentialFlags) checkers() (all []auth.Checker, err error) {
	if c.tokens != "" {
		t, err := auth.OpenTokens(c.tokens)
		if err != nil {
			return nil, fmt.Errorf("--auth-token-file: %w", err)
		}
		all = append(all, t)
	}
	if c.jwtKeys != "" {
		k, err := auth.OpenKeys(c.jwtKeys, c.jwt)
		if err != nil {
			return nil, fmt.Errorf("--auth-jwt-keys: %w", err)
		}
		all = append(all, k)
	}
	if c.jwtSecret != "" {
		k, err := auth.OpenSecret(c.jwtSecret, c.jwt)
		if err != nil {
			return nil, fmt.Errorf("--auth-jwt-secret-file: %w", err)
		}
		all = append(all, k)
	}
	if (c.jwt.Issuer != "" || c.jwt.Audience != "") && c.jwtKeys == "" && c.jwtSecret == "" {
		return nil, errors.New("--auth-jwt-issuer and --auth-jwt-audience need --auth-jwt-keys or --auth-jwt-secret-file")
	}
	if c.jwt.Skew < 0 {
		return nil, fmt.Errorf("--auth-jwt-skew %v cannot be negative", c.jwt.Skew)
	}
	if c.oidc.Issuer != "" {
		if c.provider, err = sso.Open(c.oidc); err != nil {
			return nil, err
		}
		all = append(all, c.provider)
	} else if c.oidc.ClientID != "" || c.oidc.SecretFile != "" || len(c.oidc.Allow) > 0 || len(c.oidc.Scopes) > 0 {
		return nil, errors.New("--console-oidc-client-id, --console-oidc-client-secret-file, --console-oidc-allow and --console-oidc-scope need --console-oidc-issuer")
	}
	peer, err := c.peer.checker()
	if peer != nil {
		all = append(all, peer)
	}
	return all, err
}

// checker returns the checker of the flags of exec-server, or nil. Error texts are those of exec-server.
func (p *peerFlags) checker() (auth.Checker, error) {
	ofTokens := p.tokenFile != "" || p.tokenDigest != ""
	ofSignatures := p.secretFile != "" || p.issuer != "" || p.audience != "" || p.skew != nil
	switch p.mode {
	case "":
		if ofTokens || ofSignatures {
			return nil, errors.New("websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`")
		}
		return nil, nil
	case capabilityToken:
		switch {
		case ofSignatures:
			return nil, errors.New("`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`")
		case p.tokenFile != "" && p.tokenDigest != "":
			return nil, errors.New("`--ws-token-file` and `--ws-token-sha256` are mutually exclusive")
		case p.tokenFile != "":
			t, err := auth.OpenSingleToken(p.tokenFile)
			if err != nil {
				return nil, err
			}
			return t, nil
		case p.tokenDigest != "":
			t, err := auth.ParseTokenDigest(p.tokenDigest)
			if err != nil {
				return nil, errors.New("--ws-token-sha256 must be a 64-character hex SHA-256 digest")
			}
			return t, nil
		}
		return nil, errors.New("`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set")
	case signedBearerToken:
		switch {
		case ofTokens:
			return nil, errors.New("`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`")
		case p.secretFile == "":
			return nil, errors.New("`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set")
		}
		o := auth.SignedOptions{Issuer: strings.TrimSpace(p.issuer), Audience: strings.TrimSpace(p.audience), Skew: 30 * time.Second, Nameless: true}
		if p.skew != nil {
			o.Skew = *p.skew
		}
		k, err := auth.OpenSecret(p.secretFile, o)
		switch {
		case errors.Is(err, auth.ErrShortSecret):
			return nil, fmt.Errorf("signed websocket bearer secret %s must be at least %d bytes", p.secretFile, auth.MinSecret)
		case err != nil:
			return nil, err
		}
		return k, nil
	}
	return nil, fmt.Errorf("--ws-auth %q: want %s or %s", p.mode, capabilityToken, signedBearerToken)
}

// tlsConfig returns nil without TLS. Without another credential, a client certificate is required.
func (c *credentialFlags) tlsConfig(listen string, noTokens bool, log *slog.Logger) (*tls.Config, error) {
	wss := strings.HasPrefix(listen, "wss://")
	switch {
	case !wss && (c.tls.Certificate != "" || c.tls.Key != "" || c.tls.ClientCAs != ""):
		return nil, fmt.Errorf("--tls-cert, --tls-key and --tls-client-ca are for --listen wss://IP:PORT, not for %s", listen)
	case !wss:
		return nil, nil
	case c.tls.Certificate == "" || c.tls.Key == "":
		return nil, fmt.Errorf("--listen %s needs --tls-cert and --tls-key", listen)
	}
	files := c.tls
	files.RequireCertificate = files.ClientCAs != "" && noTokens
	files.Failed = func(err error) { log.Error("the TLS files are wrong; the last valid ones stay in use", "err", err) }
	return files.Config()
}
