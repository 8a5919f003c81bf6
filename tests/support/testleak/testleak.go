// Package testleak gives goroutines time to end.
package testleak

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is the limit of the wait for goroutines: only a dead machine, or a leak, reaches the limit.
const patience = time.Minute

type patient struct {
	m       *testing.M
	options []goleak.Option
}

// Patient is for goleak.VerifyTestMain, which waits for goroutines some two seconds. The options are those of VerifyTestMain.
func Patient(m *testing.M, options ...goleak.Option) goleak.TestingM { return patient{m, options} }

// Run runs the tests. After passed tests, Run waits until no goroutine of a test is left, and for a minute at most.
func (p patient) Run() (code int) {
	code = p.m.Run()
	for begun := time.Now(); code == 0 && time.Since(begun) < patience && goleak.Find(p.options...) != nil; {
	}
	return code
}
