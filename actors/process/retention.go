package process

import (
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
)

// retentionOf is how much a process may hold for its owner, in bytes.
func retentionOf(s *env.Env, r *protocol.Retention) (int64, *protocol.Error) {
	if r == nil {
		return s.Retention, nil
	}
	switch {
	case r.OnFull == protocol.OnFullSpool && s.SpoolLimit < 0:
		return 0, protocol.Errorf(protocol.KindOff, protocol.CodeInvalidParams, "retention.onFull spool is off on this server (--spool-limit 0): use block or evict")
	case r.SpoolBytes != nil && r.OnFull != protocol.OnFullSpool:
		return 0, protocol.WrongParams("retention.spoolBytes is for onFull spool: set that, or leave it out")
	case r.SpoolBytes != nil && *r.SpoolBytes > uint64(s.SpoolLimit):
		return 0, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "retention.spoolBytes is %d, this server allows %d (spool-limit)", *r.SpoolBytes, s.SpoolLimit).
			Exceeds("spool-limit", float64(s.SpoolLimit), float64(*r.SpoolBytes))
	}
	if r.Bytes == nil {
		return s.Retention, nil
	}
	if n := *r.Bytes; n < config.MinRetention || n > uint64(s.MaxRetention) {
		return 0, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "retention.bytes is %d, this server allows %d to %d", n, config.MinRetention, s.MaxRetention)
	}
	return int64(*r.Bytes), nil
}

// spoolOf returns the file on disk for output beyond the retention; nil: such output waits.
func spoolOf(s *env.Env, disk *spool.Disk, r *protocol.Retention) *spool.File {
	if r == nil || r.OnFull != protocol.OnFullSpool {
		return nil
	}
	limit := s.SpoolLimit
	if r.SpoolBytes != nil {
		limit = int64(*r.SpoolBytes)
	}
	return disk.New(limit)
}
