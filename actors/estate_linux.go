package actors

import (
	"fmt"

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
		return fmt.Errorf("what the next server needs: %w", err)
	}
	return nil
}
