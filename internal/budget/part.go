package budget

import "sync/atomic"

// Part is a bounded part of an Account, for one purpose. Several goroutines may share it. Closing
// the Account gives back what the Part has taken.
type Part struct {
	account *Account
	max     int64 // bytes of the Part
	each    int   // bytes of the Account for one of the Part
	held    atomic.Int64
}

// Part returns a new Part of max bytes. The Account counts each of them times over: that many
// copies will be in memory.
func (a *Account) Part(max int64, times int) *Part {
	return &Part{account: a, max: max, each: times}
}

// Try takes n bytes if the Part and the Account have room for them now, and reports whether.
func (p *Part) Try(n int) bool {
	if p.held.Add(int64(n)) > p.max || !p.account.Try(n*p.each) {
		p.held.Add(-int64(n))
		return false
	}
	return true
}

// Give gives n bytes back.
func (p *Part) Give(n int) {
	p.held.Add(-int64(n))
	p.account.Give(n * p.each)
}
