package actors

import (
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/estate"
)

// openEstate opens the estate of a server with a holder.
func openEstate(e *env.Env) (err error) {
	if e.Holder == nil {
		return nil
	}
	found := make(map[string]int)
	for _, f := range e.Found {
		if f.ID == "" {
			found = f.Files
		}
	}
	if e.Estate, err = estate.Open(e.Holder, found, 4*e.Budget, e.Log); err != nil {
		return fmt.Errorf("what the next server needs: %w: choose a smaller memory budget, or no holder (--no-holder)", err)
	}
	return nil
}

// trimEvery is the time between two looks for memory of output that nobody uses any more.
const trimEvery = 10 * time.Second

// trim gives memory of the estate back to the system until stopped is closed.
func trim(e *env.Env, stopped <-chan struct{}) {
	if e.Estate == nil {
		return
	}
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-tick.C:
			if err := e.Estate.Trim(); err != nil {
				e.Log.Warn("memory of output that nobody uses stays", "err", err)
			}
		}
	}
}
