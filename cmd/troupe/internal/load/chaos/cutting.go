package chaos

// A cutting is a cut that the link makes at certain bytes of the connection.
type cutting struct {
	kind   Kind
	reset  bool
	moment moment
	calls  int    // how many reads or writes of the handshake pass before
	arg    uint64 // random bits to choose the byte
}

// A moment says at which bytes the link makes a cut.
type moment uint8

const (
	inWrite      moment = iota // within a write
	inRead                     // within the bytes of a read
	afterMessage               // after the first message of the client
	inAnswer                   // in the first bytes of the server after the first message of the client
)

// prepare gives the link a cut to make at certain bytes, and reports whether the link is open and had no such cut to make.
func (l *link) prepare(a Act) bool {
	c := &cutting{kind: a.Kind, reset: a.Arg&1 == 0, arg: a.Arg >> 8}
	switch variant := a.Arg >> 1 & 3; {
	case a.Kind == MidFrame:
	case a.Kind == Resume && variant < 2:
		c.moment = afterMessage
	case a.Kind == Resume:
		c.moment = inAnswer
	case variant == 0: // before the first byte of the handshake
		return l.cut(a.Kind, c.reset)
	case variant == 1: // in the first or second write of the handshake
		c.calls = int(a.Arg >> 3 & 1)
	default: // in the first or second read of the handshake
		c.moment, c.calls = inRead, int(a.Arg>>3&1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != open || l.due != nil {
		return false
	}
	l.due = c
	return true
}

// inWrite returns how many of n bytes to write before the cut. Below 0 means: write all bytes and do not cut yet. begins says that the n
// bytes begin the client's first message.
func (c *cutting) inWrite(begins bool, n int) int {
	switch {
	case c.kind == Handshake && begins: // the handshake had fewer reads or writes than calls
		return 0
	case c.moment == afterMessage && begins:
		return n
	case c.moment != inWrite:
		return -1
	case c.calls > 0:
		c.calls--
		return -1
	case n < 2:
		return -1
	}
	return 1 + int(c.arg%uint64(n-1))
}

// inRead returns how many of n received bytes to pass on before the cut. Below 0 means: pass on all bytes and do not cut yet. begun says that
// the client's first message has begun.
func (c *cutting) inRead(begun bool, n int) int {
	switch {
	case c.moment == inAnswer && begun:
	case c.moment != inRead:
		return -1
	case c.calls > 0:
		c.calls--
		return -1
	}
	return int(c.arg % uint64(n))
}
