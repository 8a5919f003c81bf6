package health

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/internal/record"
)

func init() {
	for _, a := range []Action{Look{}, Match{}, Say{}, Probe{}, Blame{}, Warn{}} {
		record.Register(fmt.Sprintf("%T", a), a)
	}
}
