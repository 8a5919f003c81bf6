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

// closeFor returns the Close frame that ends a connection after ReadMessage returned err. Clients give
// up after CloseProtocolError, so closeFor uses this code only for a violation.
func closeFor(err error) (code int, reason string) {
	var (
		violation *ViolationError
		limit     *LimitError
		dead      deadError
		closed    *CloseError
		memory    *memoryError
		slow      slowError
	)
	switch {
	case errors.As(err, &memory):
		return CloseTryLater, memory.reason()
	case errors.As(err, &slow):
		return ClosePolicy, slow.reason()
	case errors.As(err, &violation):
		return CloseProtocolError, violation.What
	case errors.As(err, &limit):
		return CloseTooBig, limit.reason()
	case errors.As(err, &dead):
		return CloseLost, dead.reason() + connectAgain
	case errors.As(err, &closed):
		return closed.Code, ""
	case err == io.EOF:
		return CloseNormal, ""
	}
	return CloseLost, "the connection broke" + connectAgain
}

// meaning translates an error of gorilla's reader into an error of this package.
func (c *webSocket) meaning(err error) error {
	var (
		limit  *LimitError
		closed *websocket.CloseError
	)
	if _, slow := errors.AsType[slowError](err); slow {
		return err
	}
	if _, full := errors.AsType[*memoryError](err); full {
		return err
	}
	switch {
	case errors.Is(err, ErrDead), errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, websocket.ErrReadLimit): // gorilla returns ErrReadLimit for a size over 63 bits
		return &LimitError{What: "frame", Max: c.maxFrame}
	case errors.As(err, &limit):
		return limit
	case errors.As(err, &closed):
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
