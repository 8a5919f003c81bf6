//go:build unix

package run

import (
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/rpc"
	"github.com/b6f6fdd7/troupe/transport"
)

// Leave implements profile.Session.
func (s *session) Leave(away time.Duration) {
	s.mu.Lock()
	s.away = max(away, 1)
	s.absences.leave(time.Now())
	s.mu.Unlock()
	s.signal()
}

// Away implements profile.Session.
func (s *session) Away(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absences.overlap(from, to)
}

// wasCut counts each cut of the chaos, when the cut happens. Some cuts happen later than their act.
func (s *session) wasCut(k chaos.Kind) {
	s.rec.Add(result.Cuts, 1)
	s.rec.Add(result.Cuts+" "+string(k), 1)
}

// excused reports whether the run itself has ended l or the attempt to connect l: by a cut of the chaos, by the kill of a
// server, or by an earlier attempt. Call excused once for each end.
func (s *session) excused(l *link, err error) bool {
	return !chaos.CutAt(l.socket).IsZero() || s.kills.since(l.began) || s.byGhost(err)
}

// takeOverSoon makes a second connection take the session over.
func (s *session) takeOverSoon() {
	s.mu.Lock()
	s.takeover = true
	s.mu.Unlock()
	s.signal()
}

// byGhost reports whether a connection has ended because the server gave the session to an earlier attempt. The attempt had failed for the
// client.
func (s *session) byGhost(err error) bool {
	var closed *transport.CloseError
	_, evicted := errors.AsType[*rpc.EvictedError](err)
	if s.ghosts == 0 || !evicted && !(errors.As(err, &closed) && closed.Code == closeEvicted) {
		return false
	}
	s.ghosts--
	return true
}
