package life

import "github.com/b6f6fdd7/troupe/internal/record"

func init() {
	record.RegisterAll(
		Spawn{}, Begin{}, Unwatch{}, Finish{}, Signal{}, Kill{}, KillTree{}, Abandon{},
		LogExited{}, LogRestarted{}, LogEvicted{}, LogClosed{}, Reopen{}, Unstarted{},
		Announce{}, AnswerTrees{}, TellReady{}, TellEnded{}, TellGone{}, TellRejoins{}, Cut{}, DropLog{}, TellRetired{}, StopActor{},
	)
}
