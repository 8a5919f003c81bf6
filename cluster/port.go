package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// Paths of the port for other nodes. The websockets of clients are at /.
const (
	pathNode  = "/node"  // GET: the Node
	pathDrain = "/drain" // POST ?for=DURATION, DELETE
)

// introduced returns who is at the other end of a websocket.
func (c *Cluster) introduced(r *http.Request, from *tls.ConnectionState) (about identity.About, remote string, err error) {
	i, err := unseal(r.Header.Get(headerClient), from)
	if err != nil {
		return about, r.RemoteAddr, refusal(statusForbidden, "%v", err)
	}
	if i.To != c.id {
		return about, i.Remote, refusal(statusOther, "this is node %s, and not %s", c.id, printable(i.To))
	}
	if i.Opens {
		if self := c.self(); self.Draining || self.Load.full() {
			return about, i.Remote, refusal(statusFull, "node %s takes no new session", c.o.Name)
		}
	}
	if i.Token != "" {
		guest, ok := c.o.Shares.Check(i.Token, time.Now())
		if !ok {
			return about, i.Remote, refusal(statusNoToken, "%v", auth.ErrToken)
		}
		i.About.Identity = guest
	}
	return i.About, i.Remote, nil
}

// answer answers the requests of other nodes that are no websockets.
func (c *Cluster) answer(w http.ResponseWriter, r *http.Request, from *tls.ConnectionState) {
	if err := c.credentials.check(from); err != nil {
		http.Error(w, err.Error(), statusForbidden)
		return
	}
	switch {
	case r.URL.Path == pathNode && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(c.self())
	case r.URL.Path == pathDrain && r.Method == http.MethodPost:
		lasts, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil || lasts < 0 {
			http.Error(w, "say how long the sessions may go on, such as ?for=10m", http.StatusBadRequest)
			return
		}
		c.drain(time.Now().Add(lasts))
	case r.URL.Path == pathDrain && r.Method == http.MethodDelete:
		c.drain(time.Time{})
	default:
		http.Error(w, "nothing is here for another node", http.StatusNotFound)
	}
}

// drain has this node drained until a time, or with the zero time no more, and the others told.
func (c *Cluster) drain(until time.Time) {
	c.own.Drain(until)
	c.hurry()
}

// hurry has the membership told of a change at once.
func (c *Cluster) hurry() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// maxAnswer bounds the answer of another node, in bytes.
const maxAnswer = 16 << 20

// call asks a node. name is that of the node, or "" if any node may answer at the address.
func (c *Cluster) call(ctx context.Context, method, address, name, path string, answer any) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			d := tls.Dialer{NetDialer: new(net.Dialer), Config: c.credentials.client(name)}
			return d.DialContext(ctx, network, address)
		},
	}}
	r, err := http.NewRequestWithContext(ctx, method, "https://node"+path, nil)
	if err != nil {
		return err
	}
	got, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the node at %s: %w", address, err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("the node at %s: %w", address, err)
	case got.StatusCode/100 != 2:
		return fmt.Errorf("the node at %s: %s", address, body)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(body, answer)
}

// errOther means: another incarnation is at the address of a node.
var errOther = errors.New("another node is there")

// ask asks a known node for itself. Another incarnation at its address is an error.
func (c *Cluster) ask(ctx context.Context, n Node) (now Node, err error) {
	if err = c.call(ctx, http.MethodGet, n.Address, n.Name, pathNode, &now); err == nil && now.ID != n.ID {
		err = fmt.Errorf("node %s is at %s now: %w", now.ID, n.Address, errOther)
	}
	return now, err
}

// Ask asks whichever node is at an address for itself. For a Membership without a directory.
func (c *Cluster) Ask(ctx context.Context, address string) (n Node, err error) {
	err = c.call(ctx, http.MethodGet, address, "", pathNode, &n)
	return n, err
}
