// Package repeat recognizes requests that a client sends again after a cut, by the hash of their
// id. The package is a plain data structure. A single goroutine at a time may use a Memory.
package repeat

import (
	"crypto/sha256"
	"reflect"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/newest"
	"github.com/b6f6fdd7/troupe/protocol"
)

// ID is the hash of an id: an id may be long.
type ID [16]byte

// IDOf returns the ID of a client's id.
func IDOf(id string) (h ID) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

// Memory remembers a value for each of the newest ids. The zero Memory is empty.
type Memory[V any] = newest.Map[ID, V]

const (
	// MaxAnswers is how many answers a process, or a session, remembers: as many as a client
	// may be without when it is cut.
	MaxAnswers = 1024
	// maxErrorText is how much of an error's text is remembered, in bytes: the text may have
	// names from the client.
	maxErrorText = 256
)

// Answer is the answer to a request.
type Answer struct {
	Result any
	Err    *protocol.Error // nil: the request succeeded
}

// Answers remembers the newest answers to requests with a requestId. The zero Answers is empty.
type Answers struct {
	memory Memory[Answer]
	follow bool    `lost:"of this server"` // Follow was called
	fresh  []fresh `lost:"told already"`   // answers that News has to tell
}

// Key returns the identity of a request, by which Answers recognizes the same request when a
// client repeats it: its type and its requestId. ok is false if the request has no requestId.
func Key(params any) (key ID, ok bool) {
	r, ok := params.(interface{ Repeats() string })
	if !ok || r.Repeats() == "" {
		return key, false
	}
	return IDOf(reflect.TypeOf(params).Name() + "\x00" + r.Repeats()), true
}

// To returns the earlier answer to the same request; ok is false if there was no answer.
func (a *Answers) To(params any) (answer Answer, ok bool) {
	key, ok := Key(params)
	if !ok {
		return answer, false
	}
	return a.memory.Get(key)
}

// Add remembers an answer, if its request has a requestId.
func (a *Answers) Add(params, result any, err *protocol.Error) {
	key, ok := Key(params)
	if !ok {
		return
	}
	if err != nil && len(err.Message) > maxErrorText {
		err = protocol.Errorf(err.Kind(), err.Code, "%s…", strings.ToValidUTF8(err.Message[:maxErrorText], ""))
	}
	a.memory.Put(key, Answer{result, err}, MaxAnswers)
	if a.follow {
		a.fresh = append(a.fresh, fresh{key, Answer{result, err}})
	}
}
