package main

// mutants are the changes that the tests of each package must notice.
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
}
