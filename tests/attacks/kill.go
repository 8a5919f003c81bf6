package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Attacks on the end of programs.
var killAttacks = []*attack{
	{
		name: "resets in batches", short: true, smoke: true,
		does: "Resets connections in the middle of batches of commands that belong to them.",
		must: "No command outlives its connection.",
		run:  resets,
	},
}

// resets starts commands of a connection, and resets it at a random moment.
func resets(ctx context.Context, t *target) error {
	err := parallel(t.n(400, 40), 8, func(i int) error {
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		if err := p.initialize(ctx, nil); err != nil {
			return err
		}
		time.AfterFunc(rand.N(30*time.Millisecond), p.reset)
		for n := range 100 {
			params := obj{"command": []string{"/bin/sleep", t.token}, "cwd": "/", "processHandle": fmt.Sprint(n), "timeoutMs": nil}
			if _, err := p.request("process/spawn", params); err != nil {
				break // reset
			}
		}
		<-p.done
		return nil
	})
	if err != nil {
		return err
	}
	return t.awaitNoKin(ctx, answerWithin)
}
