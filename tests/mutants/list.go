package main

// mutants are changes to the code. The tests of each package must notice the changes of the package.
var mutants = []mutant{
	{file: "actors/command/outcome/outcome.go", old: `drainTime = 2 * time.Second`, new: `drainTime = 20 * time.Second`, breaks: "the end of a command waits 2 s for descendants"},
	{file: "actors/command/outcome/outcome.go", old: `drainEntries = 256`, new: `drainEntries = 257`, breaks: "the drain of a command takes at most 256 entries"},
	{file: "actors/command/outcome/outcome.go", old: `min(last, o.last+drainEntries)`, new: `last`, breaks: "the drain of a command is bounded"},
	{file: "actors/command/outcome/outcome.go", old: `int64(len(p.Data)) >= left`, new: `int64(len(p.Data)) > left`, breaks: "capReached is told with the byte that reaches the cap"},
	{file: "actors/command/outcome/outcome.go", old: `p.Data[:left], true`, new: `p.Data[:max(left-1, 0)], true`, breaks: "a command is told all bytes up to its cap"},
	{file: "actors/command/outcome/outcome.go", old: `entries[0].Seq != o.last+1`, new: `entries[0].Seq <= o.last`, breaks: "a command takes no delivery with a hole"},
	{file: "actors/command/outcome/outcome.go", old: `o.code = dialect.LostCode`, new: `o.code = dialect.TimedOutCode`, breaks: "a lost command has the code -1"},
	{file: "actors/command/outcome/outcome.go", old: `o.code = dialect.TimedOutCode`, new: `o.code = dialect.LostCode`, breaks: "a command that timed out has the code 124"},
	{file: "actors/command/outcome/outcome.go", old: `o.end == nil || o.told`, new: `o.end == nil`, breaks: "the end of a command is told once"},
	{file: "actors/command/outcome/outcome.go", old: `bytes, o.held = o.held, 0`, new: `bytes, o.held = max(o.held-1, 0), 0`, breaks: "kept output is given back to the byte"},
	{file: "actors/command/outcome/outcome.go", old: `if s.full || o.end != nil {`, new: `if s.full {`, breaks: "nothing is kept of what comes after the end"},
	{file: "actors/command/outcome/outcome.go", old: `case !o.exited || o.asked || o.end != nil:`, new: `case !o.exited || o.end != nil:`, breaks: "the process is asked once how far its log goes"},
	{file: "actors/command/outcome/outcome.go", old: `DrainTimedOut: !o.closed`, new: `DrainTimedOut: o.closed`, breaks: "an end that did not wait for the streams says so"},
	{file: "actors/command/outcome/text.go", old: `if cut && !utf8.FullRune(b) {`, new: `if cut && utf8.FullRune(b) {`, breaks: "text is never cut within a character"},
	{file: "actors/command/command.go", old: `Release: m.Release}`, new: `}`, breaks: "a parcel of streamed output holds its delivery"},
	{file: "actors/command/command.go", old: `p.Release = func() { room.Give(held) }`, new: `_ = room`, breaks: "the end of a command gives back what it kept"},
	{file: "actors/command/command.go", old: `c.Room.Give(c.outcome.GiveBack())`, new: `c.outcome.GiveBack()`, breaks: "a command that stops gives back what it kept"},
	{file: "actors/command/command.go", old: `if c.pulled {
		if end`, new: `if true {
		if end`, breaks: "the end of a command waits for a Pull"},
	{file: "internal/budget/part.go", old: `p.account.Give(n * p.each)`, new: `p.account.Give(n)`, breaks: "a Part gives back what it took of the Account"},
	{file: "internal/budget/part.go", old: `> p.max`, new: `> p.max+1`, breaks: "a Part takes no more than its bound"},
	{file: "actors/command/dialect/translator.go", old: `(2*jsonBytes)`, new: `(2*jsonBytes-1)`, breaks: "both streams of a buffered command fit one message"},
	{file: "actors/command/dialect/translator.go", old: `max(ms, 1)`, new: `ms`, breaks: "a timeout of 0 ms is not none"},
	{file: "actors/registry/roster/relief.go", old: `a.since.Before(since)`, new: `since.Before(a.since)`, breaks: "the session that was left first is evicted first"},
	{file: "actors/registry/roster/relief.go", old: `a.holds.Held() >= Worth`, new: `a.holds.Held() > Worth`, breaks: "a session that holds 256 KiB is worth ending"},
	{file: "actors/registry/roster/relief.go", old: `now.Before(spared)`, new: `false`, breaks: "a session is spared for 10 s after its owner left"},
	{file: "actors/registry/roster/relief.go", old: `r.refund = now.Add(Refund)`, new: `r.refund = now`, breaks: "no other session ends until the memory of the last one is back"},
	{file: "actors/session/lifetime/lifetime.go", old: `l.detached, l.expires = time.Time{}, time.Time{}`, new: `l.detached = time.Time{}`, breaks: "a session whose owner is back does not expire"},
	{file: "actors/session/lifetime/lifetime.go", old: `if l.owned || l.closing {`, new: `if l.closing {`, breaks: "a session with an owner is not evicted"},
	{file: "actors/session/lifetime/lifetime.go", old: `left <= l.warning() && !l.warned`, new: `false && !l.warned`, breaks: "the end for age is announced"},
	{file: "actors/session/lifetime/lifetime.go", old: `if wrote.After(l.quiet) {`, new: `if false {`, breaks: "a session in which something is written is not idle"},
	{file: "actors/session/lifetime/lifetime.go", old: `if l.closing {
		return nil
	}
	if l.limits.Age`, new: `if l.limits.Age`, breaks: "a session ends once"},
	{file: "actors/session/members/members.go", old: `return nil, t.lingering[name] == nil`, new: `return nil, false`, breaks: "an actor that its session does not know is an orphan"},
	{file: "actors/session/members/members.go", old: `now.Sub(r.at) > keep`, new: `now.Sub(r.at) >= keep`, breaks: "a removal is remembered as long as was said"},
	{file: "actors/session/processes.go", old: `if orphan && m.Err == nil {`, new: `if orphan && m.Err != nil {`, breaks: "an orphan is stopped"},
	{file: "actors/message/key.go", old: `strings.LastIndexByte(pid.Id, '/')`, new: `strings.IndexByte(pid.Id, '/')`, breaks: "the name of an actor is the last part of its id"},
	{file: "supervision/group.go", old: `o.State == Waiting && o.Run > 0 &&`, new: `o.State == Waiting &&`, breaks: "a member that never ran does not wait for the backoff of another"},
}
