package cluster

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/transport"
)

// headerClient is the header with an introduction and its signature.
const headerClient = "Troupe-Client"

// An introduction is what a node says of its client to the node of the client's session. The key of the certificate signs it together with a secret of
// the connection: so it is for this connection only, whatever the clocks say.
type introduction struct {
	From string `json:"from"` // the node of the client
	To   string `json:"to"`   // the node of the session

	Remote string         `json:"remote"` // the address of the client, for logs
	About  identity.About `json:"about"`
	// Token is the token of a share, which only the node of the session can check. About has no identity then.
	Token string `json:"token,omitempty"`
	Opens bool   `json:"opens,omitempty"` // the client opens a session
}

// bound returns what is signed of a text on a connection.
func bound(s *tls.ConnectionState, text []byte) ([]byte, error) {
	secret, err := s.ExportKeyingMaterial("EXPORTER-troupe-client", nil, 32)
	return append(secret, text...), err
}

// seal returns the value of headerClient.
func (i introduction) seal(s *tls.ConnectionState, own *credential) (string, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return "", err
	}
	whole, err := bound(s, text)
	if err != nil {
		return "", err
	}
	signature, err := own.sign(whole)
	return base64.StdEncoding.EncodeToString(text) + "." + base64.StdEncoding.EncodeToString(signature), err
}

// unseal returns the introduction in a value of headerClient, from the node with the certificate of the connection.
func unseal(value string, s *tls.ConnectionState) (i introduction, err error) {
	head, tail, _ := strings.Cut(value, ".")
	text, err1 := base64.StdEncoding.DecodeString(head)
	signature, err2 := base64.StdEncoding.DecodeString(tail)
	if err := errors.Join(err1, err2); err != nil || value == "" {
		return i, fmt.Errorf("the header %s is not an introduction of a client", headerClient)
	}
	whole, err := bound(s, text)
	if err != nil {
		return i, err
	}
	from := s.PeerCertificates[0]
	if err := from.CheckSignature(algorithm(from), whole, signature); err != nil {
		return i, fmt.Errorf("the introduction of a client is not signed by the node that shows it: %w", err)
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return i, fmt.Errorf("the introduction of a client: %w", err)
	}
	if err := from.VerifyHostname(nodeid.Name(i.From)); err != nil {
		return i, fmt.Errorf("the introduction is from the node %q, and the certificate is another's: %w", i.From, err)
	}
	return i, nil
}

// refusal is an answer of the port for other nodes.
func refusal(status int, format string, a ...any) error {
	return &transport.RefusedError{Status: status, Text: fmt.Sprintf(format, a...)}
}

// Answers to a client that this node does not take.
const (
	statusFull      = http.StatusServiceUnavailable // there is no room for its session
	statusOther     = http.StatusMisdirectedRequest // this is not the node of its session
	statusForbidden = http.StatusForbidden          // the other node may not introduce it
	statusNoToken   = http.StatusUnauthorized       // its token of a share is not valid
)
