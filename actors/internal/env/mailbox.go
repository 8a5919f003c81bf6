package env

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox is a mailbox of protoactor that may get messages at once. protoactor first makes the name of a new actor known,
// and later gives the mailbox what a message needs: a message in between, from a sender that knows the name, would be a nil pointer in
// the sender. A mailbox keeps such messages until the actor has its Started.
type mailbox struct {
	actor.Mailbox
	gate *gate // gets the messages, and passes them to the actor

	started atomic.Bool
	mu      sync.Mutex
	// early are the posts before Start, in order. The time before Start is microseconds, and each sender waits for answers
	// before it sends more.
	early []func()
}

// newMailbox returns a producer of one mailbox.
func newMailbox(g *gate) actor.MailboxProducer {
	produce := actor.Unbounded()
	return func() actor.Mailbox {
		g.queue = produce()
		return &mailbox{Mailbox: g.queue, gate: g}
	}
}

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.gate.actor = invoker
	m.Mailbox.RegisterHandlers(m.gate, dispatcher)
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	if !m.started.Load() && m.keep(func() { m.Mailbox.PostUserMessage(message) }) {
		return
	}
	m.Mailbox.PostUserMessage(message)
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	_, first := message.(*actor.Started)
	if !first && !m.started.Load() && m.keep(func() { m.Mailbox.PostSystemMessage(message) }) {
		return
	}
	m.Mailbox.PostSystemMessage(message)
}

// keep keeps a post before Start, and reports whether that was needed.
func (m *mailbox) keep(post func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.Load() {
		return false
	}
	m.early = append(m.early, post)
	return true
}

// Start implements actor.Mailbox. protoactor calls Start after the post of Started.
func (m *mailbox) Start() {
	m.Mailbox.Start()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, post := range m.early {
		post()
	}
	m.early = nil
	m.started.Store(true)
}
