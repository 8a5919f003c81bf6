package registry

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// opened checks how many sessions were opened in all, and how many openings the registry remembers.
func (s *stage) opened(sessions, openings int) {
	s.t.Helper()
	if len(s.ids) != sessions || len(s.record.openings.ids) != openings || len(s.record.openings.by) != openings {
		s.t.Errorf("%d sessions opened, want %d; the registry remembers %+v, want %d", len(s.ids), sessions, s.record.openings, openings)
	}
}

// A repeated Attach opens a second session only after the end of the first, also if the registry has failed.
func TestOpenTokenOpensOnce(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		s.send(message.Attach{OpenToken: "t"})
		s.send(message.Attach{OpenToken: "t"})
		s.opened(1, 1)
		s.send(message.Attach{OpenToken: "u"})
		s.opened(2, 2)

		pid := s.pids[s.ids[0]]
		next := &registry{env: &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}, record: s.record,
			sessions: actor.NewPID(pid.Address, strings.TrimSuffix(pid.Id, "/"+s.ids[0]))}
		s.wait(func() { s.root.StopFuture(s.registry).Wait() })
		s.stop(1) // nobody tells the next registry
		s.registry = s.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return next }))
		s.send(message.Attach{OpenToken: "t"})
		s.opened(2, 2)
		s.send(message.Attach{OpenToken: "u"})
		s.opened(3, 2)
		s.stop(0)
		s.opened(3, 1)
		s.send(message.Attach{OpenToken: "t"})
		s.opened(4, 2)
		s.refused(0, "")
		s.wait(func() { s.root.StopFuture(s.registry).Wait() })
	})
}

// While an opening waits for room, its repetition takes its place. An opening that is refused is forgotten.
func TestOpenTokenWaitsForRoom(t *testing.T) {
	onStage(t, config.Config{MaxSessions: 1}, func(s *stage) {
		s.send(message.Attach{})
		s.send(message.Attach{OpenToken: "t"})
		s.refused(1, "max-sessions is 1")
		s.opened(1, 0)
		s.send(message.Standing{ID: s.ids[0], Since: time.Now(), Empty: true})
		s.send(message.Attach{Token: 1, OpenToken: "t"})
		s.send(message.Attach{Token: 2, OpenToken: "t"})
		s.opened(1, 1)
		s.stop(0)
		s.opened(2, 1)
		s.refused(1, "")
	})
}
