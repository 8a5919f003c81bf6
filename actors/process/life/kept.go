package life

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/internal/record"
)

func init() {
	for _, a := range []Action{
		Spawn{}, Begin{}, Unwatch{}, Finish{}, Signal{}, Kill{}, KillTree{}, Abandon{},
		LogExited{}, LogRestarted{}, LogEvicted{}, LogClosed{}, Reopen{}, Unstarted{},
		Announce{}, AnswerTrees{}, TellReady{}, TellEnded{}, TellGone{}, TellRejoins{}, Cut{}, DropLog{}, TellRetired{}, StopActor{},
	} {
		record.Register(fmt.Sprintf("%T", a), a)
	}
}
