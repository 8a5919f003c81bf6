package launch

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

type discard struct{}

func (discard) Write([]byte) error { return nil }
func (discard) Close() error       { return nil }

// Whoever changes what the next server needs of a Launch changes its version, too.
func TestVersion(t *testing.T) {
	log := audit.New(discard{}, audit.Options{Log: slog.New(slog.DiscardHandler)})
	defer log.Close()
	for name, change := range map[string]func(*Launch){
		"Runs":      (*Launch).Runs,
		"RecordEnd": func(l *Launch) { l.RecordEnd(1, protocol.ExitStatus{}) },
		"Resize":    func(l *Launch) { l.Resize(protocol.Size{Rows: 50, Cols: 100}) },
		"ForgetRun": (*Launch).ForgetRun,
		"Forget":    (*Launch).Forget,
	} {
		u := &choice{}
		u.now.Store(&chosen{})
		l := &Launch{
			Env:    &env.Env{Config: config.Config{Audit: log}},
			Params: &protocol.ProcessStartParams{Argv: []string{"true"}, Liveness: &protocol.Liveness{}},
			Spec:   child.Spec{Argv: []string{"true"}, Env: []string{"A=b"}},
			origin: &origin{ranAt: time.Now()},
			user:   u,
		}
		before, version := record.Encode(nil, l), l.Version()
		if change(l); bytes.Equal(record.Encode(nil, l), before) || l.Version() == version {
			t.Errorf("after %s the version is %d, before %d", name, l.Version(), version)
		}
	}
}
