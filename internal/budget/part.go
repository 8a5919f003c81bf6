package budget

import "sync/atomic"

// Part is a bounded part of an Account, for one purpose. Several goroutines may share a Part.
// Closing the Account gives back all bytes of the Part.
type Part struct {
	account *Account
	max     int64 // most bytes in the Part
	each    int   // bytes charged to the Account for each byte of the Part
	held    atomic.Int64
}

// Part returns a new Part of max bytes. The Account is charged times bytes for each byte of the
// Part, because as many copies will be in memory.
func (a *Account) Part(max int64, times int) *Part {
	return &Part{account: a, max: max, each: times}
}

// Try takes n bytes without waiting, and reports whether the Part and the Account had room.
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
