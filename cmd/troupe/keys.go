package main

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// maxKeys is how much may be typed ahead, in bytes, before the terminal has to
	// keep it.
	maxKeys = 64 << 10
	ctrlC   = 0x03
)

// keys is what is typed at a terminal in raw mode. It is read at once, also while
// the connection is lost: then nothing else hears the user who wants to give up, and
// what is typed would be left to the shell that we return to. What is typed
// meanwhile reaches the program after the resume.
type keys struct {
	mu     sync.Mutex
	change sync.Cond
	typed  []byte
	err    error
}

// newKeys reads in until its end; giveUp is called when ^C is typed twice while
// lost.
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
