//go:build !linux

package actors

import "github.com/b6f6fdd7/troupe/actors/internal/env"

// openEstate does nothing: only Linux has holders.
func openEstate(*env.Env) error { return nil }

func trim(*env.Env, <-chan struct{}) {}
