package result

import (
	"cmp"
	"maps"
	"slices"
)

// Names of Counts. The table Counts says what each of them is.
const (
	Wrong         = "wrong"
	WrongBytes    = "wrong bytes"
	CheckedBytes  = "checked bytes"
	StdinBytes    = "stdin bytes"
	Output        = "output bytes"
	Events        = "events"
	Sessions      = "sessions"
	LostSessions  = "lost sessions"
	Starts        = "starts"
	StartsRefused = "starts refused"
	Ends          = "ends"
	Failed        = "failed"
	Stopped       = "stopped"
	Runs          = "runs"
	Operations    = "operations"
	Due           = "due"
	Late          = "late"
	Missed        = "missed"
	Cuts          = "cuts" // "cuts fin", "cuts rst", … by their kind: an act of handshake or resume is two cuts, fin or rst first
	Resumes       = "resumes"
	Takeovers     = "takeovers"
	Stalls        = "stalls"
	Kills         = "kills"
	Freezes       = "freezes"
	Stops         = "stops"
	ServerKills   = "server kills"
	Errors        = "errors" // the figure of all Result.Errors together
)

// Names of Latency. The table Latencies says what each of them is.
const (
	Echo    = "echo"
	Lag     = "lag"
	Start   = "start"
	Spawned = "spawn"
	Block   = "stdin"
	Resume  = "resume"
	EndLag  = "end"
	Command = "command"
	Hiccup  = "hiccup"
)

// A Name describes a figure by its name: for people, for SLOs and for comparisons.
type Name struct {
	Name    string
	Meaning string
	Unit    Unit // of the figure itself; a count each second is PerSecond or BytesPerSec

	// Better is -1 if less of the figure is better, and 1 if a higher rate of the count is better. 0: neither.
	Better int
	Rate   bool // a comparison has the rate of the count, too
	Colour int  // of the lines of a latency in all charts, from 1 to 8
}

// Counts are the known counts, in the order of a report. Wrong bytes are a number: each of them matters.
var Counts = []Name{
	{Name: Wrong, Better: -1, Meaning: "findings of the oracle"},
	{Name: WrongBytes, Better: -1, Meaning: "missing, doubled, reordered, altered or foreign, or declared lost by a gap and not lost"},
	{Name: CheckedBytes, Unit: Bytes, Rate: true, Better: 1, Meaning: "output compared byte by byte"},
	{Name: StdinBytes, Unit: Bytes, Rate: true, Better: 1, Meaning: "accepted by the server"},
	{Name: Output, Unit: Bytes, Rate: true, Better: 1, Meaning: "output of the commands"},
	{Name: Events, Rate: true, Meaning: "events of processes, as received"},
	{Name: Sessions, Meaning: "sessions opened"},
	{Name: LostSessions, Better: -1, Meaning: "sessions that could not be resumed"},
	{Name: Starts, Rate: true, Meaning: "processes started"},
	{Name: StartsRefused, Better: -1, Meaning: "starts refused by the server"},
	{Name: Ends, Meaning: "processes that have closed"},
	{Name: Failed, Better: -1, Meaning: "commands that ended with another exit code than 0, or were not started"},
	{Name: Stopped, Meaning: "commands that the load generator ended, because its time was over"},
	{Name: Runs, Meaning: "of programs, with restarts"},
	{Name: Operations, Rate: true, Better: 1, Meaning: "operations of the profiles"},
	{Name: Due, Meaning: "operations of an open run that were due"},
	{Name: Late, Better: -1, Meaning: "operations that the load generator itself began late"},
	{Name: Missed, Better: -1, Meaning: "of them, those that never began or got no answer: the latencies count them as slower than all others"},
	{Name: Cuts, Meaning: "connections cut by chaos"},
	{Name: Cuts + " fin"}, {Name: Cuts + " rst"}, {Name: Cuts + " half-open"}, {Name: Cuts + " mid-frame"}, {Name: Cuts + " handshake"}, {Name: Cuts + " resume"},
	{Name: Resumes, Meaning: "resumes that succeeded"},
	{Name: Takeovers, Meaning: "of a session by a second client"},
	{Name: Stalls, Meaning: "times that a client read nothing"},
	{Name: Kills, Meaning: "programs that got SIGKILL"},
	{Name: Freezes, Meaning: "programs that got SIGSTOP for a while"},
	{Name: Stops, Meaning: "times that the server itself got SIGSTOP"},
	{Name: ServerKills, Meaning: "servers that got SIGKILL, and that their holder replaced"},
	{Name: Errors, Better: -1, Meaning: "errors of all texts"},
}

// Latencies are the known latencies, in the order of a report.
var Latencies = []Name{
	{Name: Echo, Unit: Nanoseconds, Better: -1, Colour: 1, Meaning: "from a keystroke to its echo"},
	{Name: Lag, Unit: Nanoseconds, Better: -1, Colour: 2, Meaning: "from the print of a line to its receipt"}, // by the clock in the line
	{Name: Start, Unit: Nanoseconds, Better: -1, Colour: 3, Meaning: "from process/start to its answer"},
	{Name: Spawned, Unit: Nanoseconds, Better: -1, Colour: 4, Meaning: "from process/start to closed"},
	{Name: Block, Unit: Nanoseconds, Better: -1, Colour: 5, Meaning: "from a block of stdin to its answer"},
	{Name: Resume, Unit: Nanoseconds, Better: -1, Colour: 6, Meaning: "from a cut to the answer of the resume"},
	{Name: EndLag, Unit: Nanoseconds, Better: -1, Colour: 7, Meaning: "from the request that ends a program to closed"},
	{Name: Command, Unit: Nanoseconds, Better: -1, Colour: 1, Meaning: "the duration of a command"},
	{Name: Hiccup, Unit: Nanoseconds, Better: -1, Colour: 8, Meaning: "how late timers of the load generator fire"}, // so much it may add to the other latencies
}

// Uses are the figures of Usage. Each is of all servers together, or with "own." before it of the load generators.
var Uses = []Name{
	{Name: "cpu", Unit: Cores, Better: -1}, {Name: "memory", Unit: Bytes, Better: -1}, {Name: "files", Better: -1}, {Name: "threads", Better: -1},
}

// Lookup returns the row of a table with a name. A name of another version of troupe has a row without a meaning.
func Lookup(table []Name, name string) Name {
	if i := indexOf(table, name); i >= 0 {
		return table[i]
	}
	return Name{Name: name}
}

func indexOf(table []Name, name string) int {
	return slices.IndexFunc(table, func(n Name) bool { return n.Name == name })
}

// Ordered returns the rows of the keys of all maps in the order of a table, and unknown keys after them.
func Ordered[V any](table []Name, all ...map[string]V) []Name {
	keys := make(map[string]bool)
	for _, m := range all {
		for key := range m {
			keys[key] = true
		}
	}
	rank := func(key string) uint { return uint(indexOf(table, key)) } // -1 is the greatest
	var rows []Name
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }) {
		rows = append(rows, Lookup(table, key))
	}
	return rows
}
