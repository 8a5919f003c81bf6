package transport

import (
	"errors"
	"io"
	"testing"
)

func TestPipe(t *testing.T) {
	a, b := Pipe("")
	go func() {
		msg := []byte("first")
		a.WriteMessage(msg, false)
		copy(msg, "FIRST") // the writer reuses its slice
		a.WriteMessage([]byte("second"), true)
		a.Close(CloseNormal, "")
		a.Close(CloseInternalError, "too late")
	}()
	first, err := b.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if string(first) != "first" {
			t.Errorf("%q", first)
		}
	}()
	wantMessage(t, b, "second")
	for range 2 {
		if _, err := b.ReadMessage(); err != io.EOF {
			t.Error(err)
		}
	}
	if err := b.WriteMessage([]byte("x"), false); err == nil {
		t.Error("written to a closed end")
	}
	if err := b.Ping([]byte("x")); err != ErrNoPing {
		t.Error(err)
	}
}

// The other end learns why a pipe was closed.
func TestPipeClose(t *testing.T) {
	a, b := Pipe("")
	a.Close(ClosePolicy, "no")
	if _, err := b.ReadMessage(); !errors.As(err, new(*CloseError)) || err.Error() != (&CloseError{ClosePolicy, "no"}).Error() {
		t.Error(err)
	}
}
