package actors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/bombs"
)

// list is n elements of a JSON array, or members of an object, without its brackets.
func list(n int, element func(i int) string) string {
	var all strings.Builder
	for i := range n {
		if i > 0 {
			all.WriteByte(',')
		}
		all.WriteString(element(i))
	}
	return all.String()
}

// costly has, by method, the params of size n with the most work. All other methods use Large
// params.
func costly() map[string][]func(n int) string {
	start := func(more string) string {
		return `{"processId":"p","argv":["/no/such/program"],"cwd":"file:///","env":{},"tty":false` + more + `}`
	}
	text := func(n int, format string) string { return fmt.Sprintf(format, strings.Repeat("a", n)) }
	id := func(more string) func(int) string {
		return func(n int) string { return text(n, `{"processId":"%s"`+more+`}`) }
	}
	path := func(n int) string { return text(n, `{"path":"file:///%s"}`) }
	entries := func(format string) func(n int) string {
		return func(n int) string { return list(n/16, func(i int) string { return fmt.Sprintf(format, i) }) }
	}
	numbered, named := entries(`"n%d":1`), entries(`"n%d":"v"`)
	words := entries(`"word%d"`)
	program := func(member string) []func(n int) string {
		return []func(n int) string{
			func(n int) string {
				return fmt.Sprintf(`{%s,"cwd":"/","command":["/no/such/program",%s]}`, member, words(n))
			},
			func(n int) string {
				return fmt.Sprintf(`{%s,"cwd":"/","command":["/no/such/program"],"env":{%s}}`, member, named(n))
			},
			func(n int) string {
				return fmt.Sprintf(`{%s,"cwd":"/%s","command":["/no/such/program"]}`, member, strings.Repeat("a", n))
			},
		}
	}
	policy := func(exclude, only, set string) string {
		return start(fmt.Sprintf(`,"envPolicy":{"inherit":"all","ignoreDefaultExcludes":false,"exclude":[%s],"includeOnly":[%s],"set":{%s}}`, exclude, only, set))
	}
	glob := func(n int) string { return `"*` + strings.Repeat("A", n) + `B"` }
	return map[string][]func(n int) string{
		"process/start": {
			func(n int) string { return start(`,"metadata":{"toolCallId":"` + strings.Repeat("a", n) + `"}`) },
			func(n int) string {
				return fmt.Sprintf(`{"processId":"p","argv":["/no/such/program",%s],"cwd":"file:///","env":{},"tty":false}`, words(n))
			},
			func(n int) string {
				return fmt.Sprintf(`{"processId":"p","argv":["/no/such/program"],"cwd":"file:///","env":{%s},"tty":true}`, named(n))
			},
			func(n int) string {
				return fmt.Sprintf(`{"processId":"p","argv":["/no/such/program"],"cwd":"file:///%s","env":{},"tty":false}`, strings.Repeat("./", n/2))
			},
			func(n int) string { return policy(glob(n/2), "", `"`+strings.Repeat("A", n/2)+`":""`) },
			func(n int) string { return policy("", glob(n/2), `"`+strings.Repeat("A", n/2)+`":""`) },
			func(n int) string {
				return policy("", list(n/2/1000, func(int) string { return glob(990) }), `"`+strings.Repeat("A", n/2)+`":""`)
			},
			func(n int) string {
				return policy("", list(n/2/8, func(i int) string { return fmt.Sprintf(`"*A%d"`, i) }), entries(`"A%d":""`)(n/2))
			},
			func(n int) string { return start(`,"ready":{"line":"` + strings.Repeat("(a*)*", n/5) + `"}`) },
			func(n int) string { return start(fmt.Sprintf(`,"ready":{"line":"([ab]{0,%d})*c"}`, n)) },
			func(n int) string { return start(`,"liveness":{"probe":{"argv":["true",` + words(n) + `]}}`) },
			func(n int) string {
				return start(`,"restart":{"policy":"permanent","giveUp":{"exitCodes":[` + entries(`%d`)(n) + `]}}`)
			},
			func(n int) string {
				return start(`,"restart":{"policy":"permanent","giveUp":{"signals":[` + list(n/10, func(int) string { return `"SIGSEGV"` }) + `]}}`)
			},
			func(n int) string { return start(`,"dependsOn":[` + words(n) + `]`) },
			func(n int) string { return start(`,"startToken":"` + strings.Repeat("a", n) + `"`) },
			func(n int) string { return start(`,"sandbox":[` + words(n) + `]`) },
		},
		"group/start": {
			func(n int) string { // each depends on all earlier processes, and one on itself
				members := max(2, n/1000)
				return fmt.Sprintf(`{"groupId":"g","processes":[%s]}`, list(members, func(i int) string {
					return fmt.Sprintf(`{"processId":"p%d","argv":["true"],"cwd":"file:///","env":{},"tty":false,"dependsOn":[%s]}`, i, list(min(i+i/(members-1), 150), func(j int) string { return fmt.Sprintf(`"p%d"`, i-j) }))
				}))
			},
			func(n int) string { // one circle of all
				members := max(2, n/500)
				return fmt.Sprintf(`{"groupId":"g","processes":[%s]}`, list(members, func(i int) string {
					return fmt.Sprintf(`{"processId":"p%d","argv":["true"],"cwd":"file:///","env":{%s},"tty":false,"dependsOn":["p%d"]}`, i, named(400), (i+1)%members)
				}))
			},
			func(n int) string {
				return `{"groupId":"g","processes":[` + start(`,"dependsOn":[`+list(n/4, func(int) string { return `"p"` })+`]`) + `]}`
			},
		},
		"group/stop":         {func(n int) string { return text(n, `{"groupId":"%s"}`) }},
		"session/close":      {func(n int) string { return text(n, `{"sessionId":"%s"}`) }},
		"session/ack":        {func(n int) string { return `{"processes":{` + numbered(n) + `}}` }},
		"process/read":       {id(`,"afterSeq":0`)},
		"process/write":      {id(`,"chunk":"","writeId":"1"`), func(n int) string { return text(n, `{"processId":"p","chunk":"","writeId":"%s"}`) }, func(n int) string { return text(n&^3, `{"processId":"p","chunk":"%s","writeId":"1"}`) }},
		"process/closeStdin": {id("")},
		"process/resize":     {id(`,"size":{"rows":1,"cols":1}`)},
		"process/signal":     {id(`,"signal":"interrupt"`), func(n int) string { return text(n, `{"processId":"p","signal":"%s"}`) }},
		"process/terminate":  {id("")},
		"process/wait":       {id("")},
		"process/restart":    {id("")},
		"process/setRestart": {id(`,"restart":{"policy":"permanent"}`), func(n int) string {
			return `{"processId":"p","restart":{"policy":"permanent","giveUp":{"exitCodes":[` + entries(`%d`)(n) + `]}}}`
		}},
		"process/info":       {id("")},
		"process/screen":     {id(""), func(n int) string { return text(n&^3, `{"processId":"p","waitFor":"%s"}`) }},
		"process/spawn":      program(`"processHandle":"p"`),
		"process/writeStdin": {func(n int) string { return text(n&^3, `{"processHandle":"p","deltaBase64":"%s"}`) }},
		"process/resizePty":  {func(n int) string { return text(n, `{"processHandle":"%s","size":{"rows":1,"cols":1}}`) }},
		"process/kill":       {func(n int) string { return text(n, `{"processHandle":"%s"}`) }},
		"command/exec": append(program(`"processId":"p"`), func(n int) string {
			return `{"argv":["/no/such/program"],"cwd":"/","env":{` + named(n) + `},"tty":false}`
		}),
		"command/exec/write":     {func(n int) string { return text(n&^3, `{"processId":"p","deltaBase64":"%s"}`) }},
		"command/exec/resize":    {func(n int) string { return text(n, `{"processId":"%s","size":{"rows":1,"cols":1}}`) }},
		"command/exec/terminate": {func(n int) string { return text(n, `{"processId":"%s"}`) }},
		"fs/readFile":            {path},
		"fs/open":                {func(n int) string { return text(n, `{"path":"file:///%s","handleId":"h"}`) }},
		"fs/readBlock":           {func(n int) string { return text(n, `{"handleId":"%s","offset":0,"len":1}`) }},
		"fs/writeBlock":          {func(n int) string { return text(n&^3, `{"handleId":"h","offset":0,"chunk":"%s"}`) }},
		"fs/close":               {func(n int) string { return text(n, `{"handleId":"%s"}`) }},
		"fs/writeFile":           {func(n int) string { return text(n&^3, `{"path":"file:///no/such","dataBase64":"%s"}`) }},
		"fs/createDirectory":     {func(n int) string { return text(n, `{"path":"file:///no/such/%s","recursive":false}`) }},
		"fs/getMetadata":         {path},
		"fs/canonicalize":        {path},
		"fs/readDirectory":       {path},
		"fs/walk":                {func(n int) string { return text(n, `{"path":"file:///%s","options":{}}`) }},
		"fs/remove":              {func(n int) string { return text(n, `{"path":"file:///%s"}`) }},
		"fs/copy": {func(n int) string {
			return text(n, `{"sourcePath":"file:///%s","destinationPath":"file:///no/such","recursive":false}`)
		}},
		"fs/watchMissing": {func(n int) string { return `{"watchId":"w","missing":[` + entries(`"file:///no/%d"`)(n) + `]}` }},
		"fs/watch":        {func(n int) string { return text(n, `{"watchId":"w","path":"/%s"}`) }},
		"fs/unwatch":      {func(n int) string { return text(n, `{"watchId":"%s"}`) }},
		"http/request": {
			func(n int) string {
				return text(n, `{"method":"GET","url":"http://127.0.0.1:1/%s","headers":[],"requestId":"r"}`)
			},
			func(n int) string {
				return `{"method":"GET","url":"http://127.0.0.1:1/","headers":[` + entries(`{"name":"a%d","value":"b"}`)(n) + `],"requestId":"r"}`
			},
		},
		"initialize": {func(n int) string {
			return `{"clientName":"x","resumeSessionId":"SESSION","takeover":true,"resumeFrom":{` + numbered(n) + `}}`
		}},
		"initialized":        nil,
		"environment/info":   {func(n int) string { return `{` + numbered(n) + `}` }},
		"environment/status": {func(n int) string { return `{` + numbered(n) + `}` }},
		"process/list":       {func(n int) string { return `{` + numbered(n) + `}` }},
		"group/list":         {func(n int) string { return `{` + numbered(n) + `}` }},
		"server/info":        {func(n int) string { return `{` + numbered(n) + `}` }},
		"session/info":       {func(n int) string { return `{` + numbered(n) + `}` }},
	}
}

// larges returns makers of params of size n, each with another of its members large. types has a
// value of each type of the params.
func larges(types []any) (all []func(n int) string) {
	for _, of := range types {
		for where := range bombs.Of(reflect.TypeOf(of), 0) {
			all = append(all, func(n int) string {
				// A message has at most 262,144 values, and bombs makes up to six for each element.
				text, err := json.Marshal(bombs.Of(reflect.TypeOf(of), n/10)[where])
				if err != nil {
					panic(err)
				}
				return string(text)
			})
		}
	}
	return all
}

// The processor time that a message takes, until what is asked behind it is answered, grows with its
// size and no faster, however it was made to be slow. Other programs change the processor time little.
func TestWorkIsLinearInAMessage(t *testing.T) {
	const (
		small, large = 100_000, 400_000
		// Shorter times say nothing.
		least = 20 * time.Millisecond
		most  = 3 * large / small
	)
	table := costly()
	known := actors.Methods.Params()
	for method, params := range known {
		if _, ok := table[method]; !ok {
			table[method] = larges(params)
		}
	}
	if len(known) != len(table) {
		t.Errorf("methods are %v, the test has %v", slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(table)))
	}
	troupe := start(t, actors.Config{AllowHTTP: true, KillGrace: -1})
	p := connect(t, troupe)
	session := p.open("")
	took := func(method, params string) time.Duration {
		begun := processorTime(t)
		switch method {
		case "initialize":
			p = connect(t, troupe)
			p.call(method, strings.Replace(params, "SESSION", session, 1))
			p.send(`{"method":"initialized"}`)
		case "session/ack":
			p.send(`{"method":"session/ack","params":` + params + `}`)
		default:
			p.call(method, params)
		}
		p.call("session/info", "{}")
		return processorTime(t) - begun
	}
	for method, all := range table {
		for i, params := range all {
			few, many := params(small), params(large)
			var ratio float64
			for range 6 { // a collection of garbage may fall into one of two
				a, b := took(method, few), took(method, many)
				if ratio = float64(b) / float64(a); ratio < most || b < least {
					ratio = 0
					break
				}
			}
			if ratio > 0 {
				t.Errorf("%s, params %d: with 4 times the size it takes %.0f times as long", method, i, ratio)
			}
		}
	}
}

// processorTime returns how long the processors have worked for this program.
func processorTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// What an envPolicy asks for is computed where only the connection that sent it waits.
func TestPolicyIsAppliedByTheReader(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(_ *actor.PID, m any) {
		request, _ := m.(actors.Request)
		starts := []protocol.ProcessStartParams{}
		switch params := request.Params.(type) {
		case protocol.ProcessStartParams:
			starts = append(starts, params)
		case protocol.GroupStartParams:
			starts = params.Processes
		}
		for _, p := range starts {
			seen.Add(1)
			if p.EnvPolicy != nil || p.Env["PATH"] != os.Getenv("PATH") || p.Env["B"] != "2" || len(p.Env) != 2 {
				t.Errorf("an actor is asked for the policy %v over %v", p.EnvPolicy, p.Env)
			}
		}
	}, nil))
	p := connect(t, troupe)
	p.open("")
	params := func(id string) string {
		return fmt.Sprintf(`{"processId":%q,"argv":["true"],"cwd":"file:///","env":{"B":"2"},"tty":false,
			"envPolicy":{"inherit":"all","ignoreDefaultExcludes":false,"exclude":["A*"],"set":{"A":"1"},"includeOnly":["pat?"]}}`, id)
	}
	for method, params := range map[string]string{"process/start": params("a"), "group/start": `{"groupId":"g","processes":[` + params("b") + "," + params("c") + `]}`} {
		if m := p.call(method, params); m.Error != nil {
			t.Errorf("%s: %+v", method, m.Error)
		}
	}
	if n := seen.Load(); n < 3 {
		t.Errorf("%d starts were seen", n)
	}
}

func TestReadyLineIsBounded(t *testing.T) {
	for expression, want := range map[string]string{
		`(?:x{1000}|y{1000})z{1000}`:             "is compiled to about",
		strings.Repeat("x", 1025):                "1025 bytes, the limit is 1024",
		strings.Repeat("x", 1024):                "",
		`x{1000}`:                                "",
		`^\d{1,3}(\.\d{1,3}){3}:\d+ (ready|up)$`: "",
	} {
		if err := (protocol.Ready{Line: expression}).Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %v, want %q", expression, err, want)
		}
	}
}
