package process

import (
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/protocol"
)

// fakeProcess starts a process with a fake child.
func fakeProcess(params protocol.ProcessStartParams, spawn func(actor.Producer) *actor.PID) (*actor.PID, *processRecord, *fake.Child) {
	return fakeProcessOf(params, spawn, func(*processRecord) {})
}

func fakeProcessOf(params protocol.ProcessStartParams, spawn func(actor.Producer) *actor.PID, change func(*processRecord)) (*actor.PID, *processRecord, *fake.Child) {
	c := &fake.Child{Born: time.Now()}
	record := &processRecord{
		env:     fake.Env(func() *fake.Child { return c }),
		id:      "p",
		name:    "p-1",
		launch:  &launch.Launch{Params: &params},
		feed:    feedOf(params.Retention, 1<<20, false),
		gauge:   share{Gauge: new(message.Gauge)},
		session: spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) }),
	}
	record.launch.Env = record.env
	change(record)
	pid := spawn(func() actor.Actor { return &process{record} })
	synctest.Wait()
	return pid, record, c
}

func ms(d time.Duration) *uint64 {
	n := env.Milliseconds(d)
	return &n
}

// write has the program of record write size bytes.
func write(record *processRecord, size int) {
	prints(record, protocol.Stdout, string(make([]byte, size)))
}

// prints has the program of record write text to a stream.
func prints(record *processRecord, s protocol.Stream, text string) {
	credit, _ := record.run.intake.Take(len(text))
	record.run.intake.Put(s, []byte(text), nil, credit, 0)
	synctest.Wait()
}
