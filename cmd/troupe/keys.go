package main

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// maxKeys is how many bytes may be typed ahead. Further keys stay in the terminal.
	maxKeys = 64 << 10
	ctrlC   = 0x03
)

// keys holds the bytes typed at a terminal in raw mode. The terminal is read at once, also while the
// connection is lost, for two reasons: the user can give up, and no typed bytes are left to the shell
// when troupe ends. After the resume, the program gets the bytes typed meanwhile.
type keys struct {
	mu     sync.Mutex
	change sync.Cond
	typed  []byte
	err    error
}

// newKeys reads in until its end. If the user types ^C twice while the connection is lost, newKeys
// calls giveUp.
func newKeys(in io.Reader, lost *atomic.Bool, giveUp func()) *keys {
	k := new(keys)
	k.change.L = &k.mu
	go k.pump(in, lost, giveUp)
	return k
}

func (k *keys) pump(in io.Reader, lost *atomic.Bool, giveUp func()) {
	buf := make([]byte, 4<<10)
	interrupts := 0
	for {
		n, err := in.Read(buf)
		if !lost.Load() {
			interrupts = 0
		} else if interrupts += bytes.Count(buf[:n], []byte{ctrlC}); interrupts >= 2 {
			giveUp()
		}
		k.mu.Lock()
		for len(k.typed) >= maxKeys {
			k.change.Wait()
		}
		k.typed = append(k.typed, buf[:n]...)
		k.err = err
		k.change.Broadcast()
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (k *keys) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && k.err == nil {
		k.change.Wait()
	}
	if len(k.typed) == 0 {
		return 0, k.err
	}
	n := copy(p, k.typed)
	k.typed = append(k.typed[:0], k.typed[n:]...)
	k.change.Broadcast()
	return n, nil
}
