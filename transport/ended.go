package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// A ViolationError reports a breach of RFC 6455 by the other side.
type ViolationError struct{ What string }

func (e *ViolationError) Error() string {
	return "transport: the other side broke the websocket protocol: " + e.What
}

// A deadError is an ErrDead with the length of the silence.
type deadError time.Duration

func (e deadError) Error() string        { return ErrDead.Error() + ": " + e.reason() }
func (e deadError) reason() string       { return fmt.Sprintf("nothing came for %v", time.Duration(e)) }
func (e deadError) Is(target error) bool { return target == ErrDead }

// connectAgain ends each reason in a Close frame for which the other side is not to blame.
const connectAgain = ": connect again"

// An ender is an error of this package that has a Close frame of its own. Clients give up after CloseProtocolError, so only a violation has
// this code.
type ender interface {
	Error() string
	closing() (code int, reason string)
}

func (e *memoryError) closing() (int, string)    { return CloseTryLater, e.reason() }
func (e slowError) closing() (int, string)       { return ClosePolicy, e.reason() }
func (e *ViolationError) closing() (int, string) { return CloseProtocolError, e.What }
func (e *LimitError) closing() (int, string)     { return CloseTooBig, e.reason() }
func (e deadError) closing() (int, string)       { return CloseLost, e.reason() + connectAgain }
func (e *CloseError) closing() (int, string)     { return e.Code, "" }

// closeFor returns the Close frame that ends a connection after ReadMessage returned err.
func closeFor(err error) (code int, reason string) {
	if own, ok := errors.AsType[ender](err); ok {
		return own.closing()
	}
	if err == io.EOF {
		return CloseNormal, ""
	}
	return CloseLost, "the connection broke" + connectAgain
}

// meaning translates an error of gorilla's reader into an error of this package.
func (c *webSocket) meaning(err error) error {
	if own, ok := errors.AsType[ender](err); ok {
		return own
	}
	closed, ok := errors.AsType[*websocket.CloseError](err)
	switch {
	case errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, websocket.ErrReadLimit): // gorilla returns ErrReadLimit for a size over 63 bits
		return &LimitError{What: "frame", Max: c.maxFrame}
	case ok:
		switch closed.Code {
		case websocket.CloseNormalClosure, websocket.CloseNoStatusReceived:
			return io.EOF
		case websocket.CloseAbnormalClosure: // gorilla returns this code if there was no Close frame
			return fmt.Errorf("transport: %s ended the connection without a Close frame: %w", c.remote, io.ErrUnexpectedEOF)
		}
		return &CloseError{Code: closed.Code, Reason: closed.Text}
	}
	// gorilla has no type for a violation, and has already sent the Close frame.
	if what, ok := strings.CutPrefix(err.Error(), "websocket: "); ok {
		return &ViolationError{what}
	}
	return fmt.Errorf("transport: read from %s: %w", c.remote, err)
}
