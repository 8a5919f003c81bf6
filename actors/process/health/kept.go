package health

import "github.com/b6f6fdd7/troupe/internal/record"

func init() {
	record.RegisterAll(Look{}, Match{}, Say{}, Probe{}, Blame{}, Warn{})
}
