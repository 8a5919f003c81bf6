package audit

import (
	"time"

	"github.com/b6f6fdd7/troupe/internal/pace"
)

// A line about a program that runs, or about a file that has changed, is always written: only a client with rights causes such
// a line. All other lines of an account take from its allowance, in bytes. Lines beyond the allowance are left out, and
// counted. So a client without rights fills no disk, and no other account loses a line.
const (
	// fullAllowance is what an account may cause at once.
	fullAllowance = 1 << 20
	// perSecond is what an allowance grows by in a second.
	perSecond = 4 << 10
	// perAct is what an allowance grows by with each line that is always written. Whoever does much causes many other lines, too.
	perAct = 4 << 10
	// tellEvery is how often a line says what was left out.
	tellEvery = 10 * time.Second
	// maxAllowances bounds the accounts with an allowance of their own. All further accounts share the allowance of strangers.
	maxAllowances = 4096
	// strangers is the account of connections without a right credential, and of clients of a server that asks for none.
	strangers = ""
)

// rate is that of an allowance.
var rate = pace.Rate{PerSecond: perSecond, Burst: fullAllowance}

// LeftOut stands for lines of an account that were left out.
type LeftOut struct {
	Account string           `json:"identity,omitempty"` // an identity, or "guests of" the identity that opened their session
	Since   time.Time        `json:"since"`
	ByEvent map[string]int64 `json:"byEvent"` // lines
}

// allowance is what an account may cause, in bytes.
type allowance struct {
	pace.Bucket
	out LeftOut // no ByEvent: none
}

// allowances has the allowances that are not full, and those of accounts with lines left out.
type allowances map[string]*allowance

// admits reports whether the line of e is written. The line has so many bytes.
func (all allowances) admits(e Event, bytes int, now time.Time) bool {
	account, kind := e.account(), e.kind()
	a := all[account]
	if a == nil && len(all) >= maxAllowances {
		account = strangers
		a = all[account]
	}
	switch {
	case kind.always && a != nil:
		a.Give(rate, perAct)
		return true
	case kind.always:
		return true
	case a == nil:
		a = new(allowance)
		all[account] = a
	}
	if a.Take(rate, bytes, now) == 0 {
		return true
	}
	if a.out.ByEvent == nil {
		a.out = LeftOut{Account: account, Since: now, ByEvent: make(map[string]int64)}
	}
	a.out.ByEvent[kind.name]++
	return false
}

// tell returns what was left out for tellEvery or longer, or at all if the record ends, and forgets full allowances.
func (all allowances) tell(now time.Time, ends bool) (told []LeftOut) {
	for account, a := range all {
		switch {
		case a.out.ByEvent != nil && (ends || now.Sub(a.out.Since) >= tellEvery):
			told = append(told, a.out)
			a.out = LeftOut{}
		case a.out.ByEvent == nil && a.Full(now):
			delete(all, account)
		}
	}
	return told
}
