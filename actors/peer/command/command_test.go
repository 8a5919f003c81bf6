package command_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/peer/command"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// world is a command, and a test in place of its troupe, session, process and connection.
type world struct {
	t       *testing.T
	system  *actor.ActorSystem
	self    *actor.PID // of the test
	command *actor.PID
	heard   chan any
}

const patience = time.Minute

func begin(t *testing.T, kept *budget.Pool, params any) *world {
	t.Helper()
	w := &world{t: t, system: actor.NewActorSystemWithConfig(actor.Configure(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))), heard: make(chan any, 100)}
	w.self = w.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case actor.SystemMessage, actor.AutoReceiveMessage, *actor.Terminated:
		default:
			w.heard <- m
		}
	}))
	translator := dialect.Translator{Cwd: "file:///", Env: func() map[string]string { return map[string]string{} }, MaxMessage: 1 << 20}
	r, _, err := translator.Request(params)
	if err != nil {
		t.Fatal(err)
	}
	e := &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}, KeptBudget: kept}
	w.command = w.system.Root.Spawn(command.New(e, command.Options{
		Spec: r.Start, From: "here", Troupe: w.self, Connection: w.self, Pull: 1 << 10,
	}))
	t.Cleanup(func() {
		w.system.Root.StopFuture(w.command).Wait() // it may have stopped
		if n := kept.Used(); n != 0 {
			t.Errorf("%d bytes are held after the command", n)
		}
	})
	w.send(message.Request{Token: 9, Params: message.StartCommand{}})
	if m := next[message.Attach](w); !m.Ephemeral || m.From != "here" || m.Options.Name != r.Start.Dialect.API() {
		t.Errorf("%+v", m)
	}
	w.send(message.Attached{Session: w.self})
	next[message.Request](w)
	return w
}

func (w *world) send(m any) { w.system.Root.RequestWithCustomSender(w.command, m, w.self) }

// next is the next message of the command, which is a T.
func next[T any](w *world) (m T) {
	w.t.Helper()
	select {
	case got := <-w.heard:
		m, ok := got.(T)
		if !ok {
			w.t.Fatalf("%T came, want %T: %+v", got, m, got)
		}
		return m
	case <-time.After(patience):
		w.t.Fatalf("no %T came", m)
	}
	return m
}

// started answers the start of the process.
func (w *world) started() {
	w.send(message.Reply{Result: message.StartResult{Process: message.ProcessRef{ID: "p", PID: w.self}}})
}

func output(seq uint64, text string) outlog.Entry {
	return outlog.Entry{Seq: seq, Kind: outlog.Output, Stream: protocol.Stdout, Data: []byte(text)}
}

func ended(seq uint64) []outlog.Entry {
	return []outlog.Entry{{Seq: seq, Kind: outlog.Exited, Status: &protocol.ExitStatus{ExitCode: 3}}, {Seq: seq + 1, Kind: outlog.Closed}}
}

var exec = protocol.CommandExecParams{Command: []string{"a"}, DisableOutputCap: true}

// Output that is kept for the end is given back once the end is written, or the command stops.
func TestKeptOutputIsGivenBack(t *testing.T) {
	text := strings.Repeat("x", 80_000)
	kept := budget.New(1 << 20)
	for _, told := range []bool{true, false} {
		w := begin(t, kept, exec)
		w.started()
		next[message.Subscribe](w)
		w.send(message.Delivery{Entries: []outlog.Entry{output(1, text)}})
		next[message.Ack](w)
		next[message.Pull](w)
		if kept.Used() == 0 {
			t.Error("kept output is not counted")
		}
		if !told {
			continue // begin's cleanup looks
		}
		w.send(message.Delivery{Entries: ended(2)})
		next[message.Ack](w)
		p := next[message.Parcel](w)
		if result, _ := p.Answer.Result.(protocol.CommandExecResult); p.Answer.Token != 9 || result.Stdout != text || result.ExitCode != 3 || !p.Last || p.Bytes != int64(len(text)) {
			t.Errorf("the end: %+v", p)
		}
		if kept.Used() == 0 {
			t.Error("the output of an end that is not written is not counted")
		}
		if p.Release(); kept.Used() != 0 {
			t.Errorf("%d bytes are held after the end", kept.Used())
		}
	}
}

// A command takes no more output while there is no memory for it, and goes on once there is. Its first 64 KiB need no memory of others.
func TestWaitsForMemory(t *testing.T) {
	kept := budget.New(100 << 10)
	other := kept.Account()
	other.Force(1 << 20)
	other.Over() // it alone may go beyond the bound
	w := begin(t, kept, exec)
	w.started()
	next[message.Subscribe](w)
	w.send(message.Delivery{Entries: []outlog.Entry{output(1, strings.Repeat("x", 20_000))}})
	next[message.Ack](w)
	next[message.Pull](w)
	w.send(message.Delivery{Entries: []outlog.Entry{output(2, strings.Repeat("x", 20_000))}})
	next[message.Ack](w)
	w.send(message.Ack{To: 2})
	next[message.Ack](w) // instead of a Pull
	other.Close()
	next[message.Pull](w)
	w.send(message.Delivery{Entries: ended(3)})
	next[message.Ack](w)
	if p := next[message.Parcel](w); len(p.Answer.Result.(protocol.CommandExecResult).Stdout) != 40_000 {
		t.Errorf("%d bytes came", p.Bytes)
	} else {
		p.Release()
	}
}

// A command with more output than its answer has room for ends with an error. A program whose end is a notification goes on, and its end
// says what is missing.
func TestMoreThanAnAnswer(t *testing.T) {
	text := strings.Repeat("x", 1<<19) // of 1 MiB for both streams
	w := begin(t, nil, exec)
	w.started()
	next[message.Subscribe](w)
	w.send(message.Delivery{Entries: []outlog.Entry{output(1, text)}})
	next[message.Ack](w)
	if r := next[message.Reply](w); r.Token != 9 || r.Err.Kind() != protocol.KindTooLarge || !strings.Contains(r.Err.Message, "room for 520192 bytes") {
		t.Errorf("%+v", r)
	}
	w = begin(t, nil, protocol.ProcessSpawnParams{Command: []string{"a"}, ProcessHandle: "h", Cwd: "/"})
	w.started()
	next[message.Reply](w)
	next[message.Subscribe](w)
	w.send(message.Delivery{Entries: append([]outlog.Entry{output(1, text)}, ended(2)...)})
	next[message.Ack](w)
	if e := next[message.Parcel](w).Notes[0].Params.(protocol.SpawnExitedNotification); !e.StdoutCapReached || len(e.Stdout) != 520_190 || e.ExitCode != 3 {
		t.Errorf("%d bytes, cap reached: %v, exit code %d", len(e.Stdout), e.StdoutCapReached, e.ExitCode)
	}
}

// Streamed output comes once for each Pull, holds its Delivery, and the end comes last.
func TestStreams(t *testing.T) {
	w := begin(t, nil, protocol.ProcessSpawnParams{Command: []string{"a"}, ProcessHandle: "h", Cwd: "/", StreamStdoutStderr: true})
	w.started()
	if r := next[message.Reply](w); r.Token != 9 || r.Err != nil {
		t.Errorf("the start: %+v", r)
	}
	if m := next[message.Subscribe](w); !m.Owner || m.Pull != 1<<10 {
		t.Errorf("%+v", m)
	}
	w.send(message.Delivery{Entries: []outlog.Entry{output(2, "hole")}})
	if m := next[message.Subscribe](w); m.After != 0 || !m.Resumed {
		t.Errorf("after a hole: %+v", m)
	}
	w.send(message.Delivery{Entries: append([]outlog.Entry{output(1, "out")}, ended(2)...), AckEvery: 7})
	p := next[message.Parcel](w)
	if p.Release == nil || p.Last || p.To != 3 || p.AckEvery != 7 || p.Bytes != 3 || len(p.Notes) != 1 || p.Notes[0].Method != protocol.NotifyProcessOutputDelta {
		t.Errorf("output: %+v", p)
	}
	w.send(message.Ack{To: 3})
	if m := next[message.Ack](w); m.To != 3 { // the end does not come without a Pull
		t.Errorf("%+v", m)
	}
	w.send(message.Pull{Bytes: 1 << 10})
	if p = next[message.Parcel](w); !p.Last || len(p.Notes) != 1 || p.Notes[0].Method != protocol.NotifySpawnExited || p.Answer != nil {
		t.Errorf("the end: %+v", p)
	}
	next[message.Ack](w)
	next[message.Unsubscribe](w)
}

// A command whose process is lost is answered with an error, or with an end that nobody saw.
func TestLost(t *testing.T) {
	w := begin(t, nil, exec)
	w.started()
	next[message.Subscribe](w)
	w.send(message.ProcessRemoved{ID: "p", Reason: "gone"})
	if r := next[message.Reply](w); r.Token != 9 || r.Err == nil || r.Err.Message != "the command was lost: gone" {
		t.Errorf("%+v", r)
	}
	w = begin(t, nil, protocol.ProcessSpawnParams{Command: []string{"a"}, ProcessHandle: "h", Cwd: "/"})
	w.started()
	next[message.Reply](w)
	next[message.Subscribe](w)
	w.send(message.ProcessRemoved{ID: "p", Reason: "gone"})
	if e := next[message.Parcel](w).Notes[0].Params.(protocol.SpawnExitedNotification); e.ExitCode != dialect.LostCode || !e.OutputDrainTimedOut {
		t.Errorf("%+v", e)
	}
}
