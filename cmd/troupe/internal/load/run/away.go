//go:build unix

package run

import "time"

// An absence is a time during which the client itself was away from its session: from a Leave to the next resume.
type absence struct {
	left time.Time
	back time.Time // zero: the client is still away
}

// absences has the last two absences of a session, the newest first. A latency that ended just before the newest absence may overlap the
// absence before.
type absences [2]absence

// leave begins an absence, unless the client is away already.
func (a *absences) leave(at time.Time) {
	if a[0].left.IsZero() || !a[0].back.IsZero() {
		a[1], a[0] = a[0], absence{left: at}
	}
}

// end ends the present absence, if there is one. Resumes after cuts of the chaos change nothing.
func (a *absences) end(at time.Time) {
	if !a[0].left.IsZero() && a[0].back.IsZero() {
		a[0].back = at
	}
}

// overlap reports whether the client was away at any time between from and to.
func (a *absences) overlap(from, to time.Time) bool {
	for _, b := range a {
		if !b.left.IsZero() && b.left.Before(to) && (b.back.IsZero() || from.Before(b.back)) {
			return true
		}
	}
	return false
}
