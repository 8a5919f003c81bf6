package workers

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// version is the version of the messages. Controller and worker must have the same version, and be of the same build: a build brings its
// profiles and streams, too.
const version = 1

const (
	maxMessage  = 64 << 20 // bytes; a result with findings is the largest message
	maxGreeting = 1 << 10  // bytes of a message before the other side is known

	// MinSecret is the least length of a secret, in bytes. A false worker could guess a shorter secret from the controller's proof.
	MinSecret = 16

	greetTime = 10 * time.Second // for TLS and the proofs
	lostAfter = 20 * time.Second // of silence; a worker sends something each second
)

// A message has exactly one field that is not nil.
type message struct {
	// Of both sides, as their first message.
	Greet *greet `json:"greet,omitempty"`
	// Of the controller.
	Job   *plan.Plan     `json:"job,omitempty"`
	Ping  *int           `json:"ping,omitempty"`  // a number, for Pong
	Start *plan.Duration `json:"start,omitempty"` // the time until the common start
	End   *end           `json:"end,omitempty"`
	// Of a worker.
	Ready  *struct{} `json:"ready,omitempty"`
	Pong   *int      `json:"pong,omitempty"`
	Update *update   `json:"update,omitempty"`
}

type greet struct {
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"` // the version of troupe
	Proof   []byte `json:"proof"`
	// Refused is the reason why the worker refuses the job; "": the worker takes the job.
	Refused string `json:"refused,omitempty"`
}

type end struct {
	Now bool `json:"now"` // at once, without the end of the programs and without checks
}

// An update has the figures of a worker so far. Seconds and Findings hold only new elements: they replace the controller's elements from a
// place on.
type update struct {
	Result   *result.Result `json:"result"`
	Seconds  int            `json:"seconds"`  // the place of the first element of Result.Seconds
	Findings int            `json:"findings"` // the place of the first element of Result.Findings
	Done     bool           `json:"done,omitempty"`
	Error    string         `json:"error,omitempty"` // with Done: why the run could not be done
}

// A channel carries messages. One goroutine reads; any goroutine writes.
type channel struct {
	conn    *tls.Conn
	limit   uint32     // bytes of a message to read
	until   time.Time  // of the greeting, whatever comes; zero: the greeting is over
	writing sync.Mutex // held while a message is written
}

// deadline returns the end of the time for a message.
func (c *channel) deadline() time.Time {
	if !c.until.IsZero() {
		return c.until
	}
	return time.Now().Add(lostAfter)
}

func (c *channel) read() (*message, error) {
	c.conn.SetReadDeadline(c.deadline())
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > c.limit {
		return nil, fmt.Errorf("a message of %d bytes, expected at most %d", size, c.limit)
	}
	var body bytes.Buffer // grows as bytes come, so a head alone costs no memory
	if n, err := io.CopyN(&body, c.conn, int64(size)); err != nil {
		return nil, fmt.Errorf("after %d of %d bytes of a message: %w", n, size, err)
	}
	m := new(message)
	return m, json.Unmarshal(body.Bytes(), m)
}

func (c *channel) write(m *message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxMessage {
		return fmt.Errorf("a message of %d bytes, expected at most %d", len(body), maxMessage)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.conn.SetWriteDeadline(c.deadline())
	_, err = c.conn.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...))
	return err
}

// ErrSecret means that the other side has another secret.
var ErrSecret = errors.New("the other side has another secret: give controller and workers the same --secret-file")

// errHungUp is the error of a controller without an answer to its proof: a worker tells a stranger nothing.
var errHungUp = fmt.Errorf("it hung up without an answer: it ended just now, or is no worker of troupe load, or %w", ErrSecret)

// prove returns the proof of a side, controller or worker, for the secret. A proof holds for its connection only: somebody in the middle has
// two connections with different keys.
func prove(c *tls.Conn, secret []byte, side string) ([]byte, error) {
	state := c.ConnectionState()
	keys, err := state.ExportKeyingMaterial("EXPORTER-troupe-load-worker", nil, sha256.Size)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(side))
	mac.Write(keys)
	return mac.Sum(nil), nil
}

const controllerSide, workerSide = "controller", "worker"

// meet makes a channel of a connection. The controller proves first, so a stranger learns nothing from a worker. Both sides must be of the same
// build. refuse returns the reason why this worker refuses a job; "": the worker takes a job.
func meet(conn *tls.Conn, secret []byte, side, build string, refuse func() string) (*channel, error) {
	c := &channel{conn: conn, limit: maxGreeting, until: time.Now().Add(greetTime)}
	conn.SetDeadline(c.until)
	if err := conn.Handshake(); err != nil {
		if side == controllerSide {
			err = fmt.Errorf("it does not speak TLS as a worker of troupe load does: %w", err)
		}
		return nil, err
	}
	ours, err := prove(conn, secret, side)
	if err != nil {
		return nil, err
	}
	other := workerSide
	if side == workerSide {
		other = controllerSide
	}
	theirs, err := prove(conn, secret, other)
	if err != nil {
		return nil, err
	}
	hello := &message{Greet: &greet{Version: version, Build: build, Proof: ours}}
	if side == controllerSide {
		if err := c.write(hello); err != nil {
			return nil, err
		}
	}
	m, err := c.read()
	switch {
	case side == controllerSide && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return nil, errHungUp // also a worker, after a wrong proof
	case err != nil:
		return nil, err
	case m.Greet == nil:
		return nil, errors.New("the other side does not greet: this is no worker of troupe load")
	case !hmac.Equal(m.Greet.Proof, theirs):
		return nil, ErrSecret
	}
	same := m.Greet.Version == version && m.Greet.Build == build
	if side == workerSide { // also for a controller of another version, which then reports the versions
		if same {
			hello.Greet.Refused = refuse()
		}
		if err := c.write(hello); err != nil {
			return nil, err
		}
	}
	switch {
	case !same:
		return nil, fmt.Errorf("the %s is troupe %s (messages %d), and this %s is troupe %s (messages %d): use the same build of troupe on all machines",
			other, cmp.Or(m.Greet.Build, "of an older build"), m.Greet.Version, side, build, version)
	case m.Greet.Refused != "":
		return nil, errors.New(m.Greet.Refused)
	}
	conn.SetDeadline(time.Time{})
	c.limit, c.until = maxMessage, time.Time{}
	return c, nil
}

// serverTLS returns a config with a new certificate of its own. The certificate proves nothing: see prove.
func serverTLS() (*tls.Config, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
	}, nil
}

func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} // meet checks the other side
}
