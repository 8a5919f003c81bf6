//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Observe implements profile.Session.
func (s *session) Observe(ctx context.Context, f func(process string, e *oracle.Event, at time.Time)) (func(), <-chan struct{}, error) {
	if !s.Ours() {
		return nil, nil, errors.New("this server has no observers")
	}
	for {
		began := time.Now()
		stop, ended, err := s.observe(ctx, f)
		if err == nil || !s.kills.since(began) || sleep(ctx, firstDelay) != nil {
			return stop, ended, err
		}
	}
}

// observe makes a single attempt.
func (s *session) observe(ctx context.Context, f func(process string, e *oracle.Event, at time.Time)) (func(), <-chan struct{}, error) {
	began := time.Now()
	dialer := &chaos.Dialer{Chaos: s.chaos, Seed: s.seed ^ 0x0b5e}
	ctx, cancel := context.WithTimeout(ctx, longTimeout)
	defer cancel()
	var closing atomic.Bool
	ended := make(chan struct{})
	conn, err := s.dialEvents(ctx, s.server, dialer.NetDial, f, func(err error) {
		defer close(ended)
		s.checkEnd(err)
		dialer.Close()
		s.gauge(figures.Connections, -1)
		if !closing.Load() && s.ctx.Err() == nil && !s.kills.since(began) {
			s.rec.Error(fmt.Errorf("connection of an observer lost: %w", err))
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("observe: %w", err)
	}
	s.gauge(figures.Connections, 1)
	stop := func() {
		closing.Store(true)
		conn.Close()
		<-ended
	}
	id := s.ID()
	_, err = conn.Initialize(ctx, protocol.InitializeParams{
		ClientName: "troupe load", ResumeSessionID: &id, Role: protocol.RoleObserver,
		Capabilities: protocol.Capabilities{Gap: true, Restarted: true},
	})
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("observe: initialize: %w", err)
	}
	return stop, ended, nil
}
