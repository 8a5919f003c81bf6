package repeat

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The results that an Answer may have.
func init() {
	for _, result := range []any{
		protocol.Empty{}, protocol.OtherRun{}, protocol.ProcessTerminateResult{}, protocol.ProcessWriteResult{}, protocol.SessionShareResult{}, protocol.SessionUnshareResult{},
	} {
		record.Register(fmt.Sprintf("%T", result), result)
	}
}
