package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// ok is a plan without faults.
func ok() Plan {
	return Plan{Servers: []string{"unix:///run/s"}, Sessions: 2, Processes: 3, Phases: []Phase{{Duration: Duration(time.Second), Mix: []Part{{Profile: Lines}}}}}
}

// wantError fails the test unless err has the text want; "": no error.
func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: error %v, want %q", what, err, want)
	}
}

func TestComplete(t *testing.T) {
	p := ok()
	p.Chaos.Freeze = 1
	p.Phases[0].Rate = 5
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	want := Part{Profile: Lines, Weight: 1, Size: 100, Every: Duration(100 * time.Millisecond)}
	if got := p.Phases[0].Mix; len(got) != 1 || got[0] != want {
		t.Errorf("mix %+v, want %+v", got, want)
	}
	if p.Encoding != "msgpack" || p.Phases[0].Arrival != Poisson || p.Chaos.StallFor != Duration(time.Second) {
		t.Errorf("%+v", p)
	}
	again := p
	if err := again.Complete(); err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("completed again: %+v, %v; want %+v", again, err, p)
	}
}

// Mixed becomes its profiles, which keep their proportions, and nothing of Mixed itself is changed.
func TestMixed(t *testing.T) {
	for range 2 {
		p := ok()
		p.Phases[0].Mix = []Part{{Profile: Echo, Weight: 1}, {Profile: Mixed, Weight: 3}}
		if err := p.Complete(); err != nil {
			t.Fatal(err)
		}
		mix := p.Phases[0].Mix
		if len(mix) != 1+len(mixed) || mix[0].Profile != Echo {
			t.Fatalf("%+v", mix)
		}
		there := map[Profile]bool{Mixed: true}
		for i, part := range mix[1:] {
			there[part.Profile] = true
			if part.Weight != 3*mixed[i].Weight {
				t.Errorf("%s has weight %d, want %d", part.Profile, part.Weight, 3*mixed[i].Weight)
			}
		}
		for _, name := range Profiles() {
			if !there[name] {
				t.Errorf("mixed lacks %s", name)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		what  string
		wrong func(*Plan)
		err   string
	}{
		{"nothing", func(*Plan) {}, ""},
		{"no server", func(p *Plan) { p.Servers = nil }, "servers: name at least one"},
		{"a server without a scheme", func(p *Plan) { p.Servers = []string{"build:7766"} }, `"build:7766" is no server`},
		{"a password", func(p *Plan) { p.Servers = []string{"ws://me:secret@build:1"} }, "the URL of build:1 has a user or password"},
		{"encoding", func(p *Plan) { p.Encoding = "xml" }, `encoding is "xml", expected json or msgpack`},
		{"no session", func(p *Plan) { p.Sessions = 0 }, "sessions is 0, expected 1 to"},
		{"no process", func(p *Plan) { p.Processes = -1 }, "processes is -1, expected 1 to"},
		{"too many together", func(p *Plan) { p.Sessions, p.Processes = 10_000, 1_000 }, "are 10000000 processes, and the limit is 1000000"},
		{"ramp", func(p *Plan) { p.Ramp = -1 }, "ramp is -1ns"},
		{"pid", func(p *Plan) { p.PIDs = []int{1} }, "1 is not a process of a server"},
		{"metrics", func(p *Plan) { p.Metrics = "host:1/metrics" }, "expected a URL such as http://"},
		{"no phase", func(p *Plan) { p.Phases = nil }, "there are 0 phases"},
		{"a short phase", func(p *Plan) { p.Phases[0].Duration = 1 }, "phase 1: duration is 1ns, expected 10ms to"},
		{"a name", func(p *Plan) { p.Phases[0].Name, p.Phases[0].Duration = "warm up", -1 }, "phase 1 (warm up): duration"},
		{"long together", func(p *Plan) { p.Phases[0].Duration = maxTime; p.Phases = append(p.Phases, p.Phases[0]) }, "take 336h0m0s together"},
		{"rate", func(p *Plan) { p.Phases[0].Rate = -1 }, "rate is -1"},
		{"arrival without a rate", func(p *Plan) { p.Phases[0].Arrival = Even }, "there is no rate"},
		{"arrival", func(p *Plan) { p.Phases[0].Arrival = "odd" }, `arrival is "odd", expected poisson or even`},
		{"no profile", func(p *Plan) { p.Phases[0].Mix = nil }, "mix has 0 profiles"},
		{"unknown profile", func(p *Plan) { p.Phases[0].Mix[0].Profile = "ecko" }, "did you mean echo?"},
		{"unknown profile, far off", func(p *Plan) { p.Phases[0].Mix[0].Profile = "x" }, "there are spawn, lines, flood"},
		{"weight", func(p *Plan) { p.Phases[0].Mix[0].Weight = -1 }, "lines: weight is -1"},
		{"weight of mixed", func(p *Plan) { p.Phases[0].Mix[0] = Part{Profile: Mixed, Weight: -1} }, "weight is -1"},
		{"huge weight of mixed", func(p *Plan) { p.Phases[0].Mix[0] = Part{Profile: Mixed, Weight: 1 << 62} }, "expected 1 to 1000000"},
		{"settings of mixed", func(p *Plan) { p.Phases[0].Mix[0] = Part{Profile: Mixed, Size: 1} }, "mixed has only a weight"},
		{"size", func(p *Plan) { p.Phases[0].Mix[0].Size = 1 << 30 }, "lines: size is 1073741824"},
		{"negative viewers", func(p *Plan) { p.Phases[0].Mix[0] = Part{Profile: Viewers, Viewers: -1} }, "viewers is -1, expected 1 to"},
		{"viewers of lines", func(p *Plan) { p.Phases[0].Mix[0].Viewers = 2 }, "the profile viewers has"},
		{"life of spawn", func(p *Plan) { p.Phases[0].Mix[0] = Part{Profile: Spawn, Life: 1} }, "spawn: life has no meaning"},
		{"chaos", func(p *Plan) { p.Chaos.MidFrame = -1 }, "chaos.mid-frame is -1"},
		{"a long stall", func(p *Plan) { p.Chaos.StallFor = Duration(20*time.Second + 1) }, "chaos.stall-for is 20.000000001s, expected 0 (it means 1s) to 20s"},
		{"a negative stall", func(p *Plan) { p.Chaos.StallFor = -1 }, "chaos.stall-for is -1ns"},
		{"the longest stall", func(p *Plan) { p.Chaos.StallFor = Duration(20 * time.Second) }, ""},
		{"may-miss", func(p *Plan) { p.MayMiss = 1.1 }, "may-miss is 1.1, expected a share from 0 to 1"},
		{"answer-within", func(p *Plan) { p.AnswerWithin = -1 }, "answer-within is -1ns, expected a duration such as 30s"},
		{"loss", func(p *Plan) { p.Chaos.Loss = 2 }, "chaos.loss is 2"},
		{"speed", func(p *Plan) { p.Chaos.Speed = 10 }, "chaos.speed is 10"},
		{"stop without pid", func(p *Plan) { p.Chaos.Stop = 1 }, "give its pid"},
		{"kill-server without pid", func(p *Plan) { p.Chaos.KillServer = 1 }, "give the pid of its holder"},
		{"an empty command", func(p *Plan) { p.Command = &Command{} }, "the command has no program"},
		{"a command needs no phases", func(p *Plan) { p.Command, p.Phases = &Command{Argv: []string{"x"}}, nil }, ""},
		{"again and again for no time", func(p *Plan) { p.Command, p.Phases = &Command{Argv: []string{"x"}, Again: true}, nil }, "run again for 0s"},
	} {
		p := ok()
		c.wrong(&p)
		wantError(t, c.what, p.Complete(), c.err)
	}
}

// All faults are told at once.
func TestAllFaults(t *testing.T) {
	p := ok()
	p.Sessions, p.Phases[0].Rate, p.Chaos.Loss = 0, -1, -1
	err := p.Complete()
	for _, want := range []string{"sessions", "rate", "chaos.loss"} {
		wantError(t, "three faults", err, want)
	}
}

func TestParseMix(t *testing.T) {
	for text, want := range map[string][]Part{
		"mixed":                                {{Profile: Mixed, Weight: 1}},
		"lines, echo":                          {{Profile: Lines, Weight: 1}, {Profile: Echo, Weight: 1}},
		"lines=3,echo":                         {{Profile: Lines, Weight: 3}, {Profile: Echo, Weight: 1}},
		"lines=3:every=50ms:size=2K:life=1m":   {{Profile: Lines, Weight: 3, Every: Duration(50 * time.Millisecond), Size: 2048, Life: Duration(time.Minute)}},
		"viewers:viewers=9,restart:restarts=2": {{Profile: Viewers, Weight: 1, Viewers: 9}, {Profile: Restart, Weight: 1, Restarts: 2}},
	} {
		if got, err := ParseMix(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                  "lacks the name of a profile",
		"echo,":             "lacks the name of a profile",
		"ecoh":              "did you mean echo?",
		"echo=":             `"" is not a weight`,
		"echo=0":            `"0" is not a weight`,
		"echo=1.5":          `"1.5" is not a weight`,
		"echo:":             `"" is not a setting`,
		"echo:evry=1s":      `"evry=1s" is not a setting`,
		"echo:weight=2":     `"weight=2" is not a setting`,
		"echo:every=1":      `profile echo: every is "1", expected a duration`,
		"echo:size=x":       "profile echo: size",
		"viewers:viewers=x": `profile viewers: viewers is "x", expected a whole number`,
	} {
		_, err := ParseMix(text)
		wantError(t, text, err, want)
	}
}

func TestParseChaos(t *testing.T) {
	for text, want := range map[string]Chaos{
		"":                         {},
		"none":                     {},
		"rst=5,fin=30/m":           {RST: 5, FIN: 0.5},
		"cut=20/s":                 {FIN: 3, RST: 3, MidFrame: 5, Handshake: 2, Resume: 2, HalfOpen: 1},
		"cut=20/s, rst=1/s":        {FIN: 3, RST: 4, MidFrame: 5, Handshake: 2, Resume: 2, HalfOpen: 1},
		"stall=1,stall-for=2s":     {Stall: 1, StallFor: Duration(2 * time.Second)},
		"delay=20ms,loss=1%":       {Delay: Duration(20 * time.Millisecond), Loss: 0.01},
		"speed=1M/s,loss=0.02":     {Speed: 1 << 20, Loss: 0.02},
		"takeover=1,kill=2,stop=3": {Takeover: 1, Kill: 2, Stop: 3},
	} {
		if got, err := ParseChaos(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"cut":         "lacks its value",
		"cuts=1":      "did you mean cut?",
		"x=1":         "there are cut, fin, rst",
		"fin=-1":      `"-1" is not a rate`,
		"fin=NaN":     `"NaN" is not a rate`,
		"fin=1/y":     `"1/y" is not a rate`,
		"stall-for=1": `stall-for is "1", expected a duration`,
		"speed=fast":  `speed is "fast", expected a number of bytes`,
		"loss=much":   `loss is "much"`,
	} {
		_, err := ParseChaos(text)
		wantError(t, text, err, want)
	}
}

const file = `
sessions: 7
tty: true
seed: 18446744073709551615
ramp: 5s
chaos: cut=20/s,stall=1
phases:
  - name: warm up
    duration: 10s
    mix: mixed
  - duration: 1m30s
    rate: 500
    arrival: even
    mix:
      - {profile: lines, weight: 3, every: 50ms, size: 4K}
      - profile: echo
`

// TestRates: Rates has each rate of Chaos, and all kinds of cuts are one cut together.
func TestRates(t *testing.T) {
	var c Chaos
	rates, cuts := 0, 0.
	for _, r := range c.Rates() {
		rates++
		cuts += r.cut
	}
	if want := reflect.TypeFor[Chaos]().NumField() - len([]string{"stall-for", "delay", "speed", "loss"}); rates != want || math.Abs(cuts-0.8) > 1e-9 {
		t.Errorf("%d rates, want %d; their shares of a cut add up to %v", rates, want, cuts)
	}
}

// TestTags: the tags of all members can be read, and a zero is in its range wherever it means a default.
func TestTags(t *testing.T) {
	for _, of := range []any{new(Plan), new(Phase), new(Part), new(Chaos)} {
		for _, err := range faults(of, "") {
			if name, _, _ := strings.Cut(err.Error(), " "); !slices.Contains([]string{"sessions", "processes", "duration", "weight"}, name) {
				t.Errorf("of a zero: %v", err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	p := Plan{Sessions: 1, Processes: 9, Encoding: "json"}
	if err := Parse([]byte(file), "f.yaml", &p); err != nil {
		t.Fatal(err)
	}
	want := Plan{
		Sessions: 7, Processes: 9, Encoding: "json", TTY: true, Seed: 1<<64 - 1, Ramp: Duration(5 * time.Second),
		Chaos: Chaos{FIN: 3, RST: 3, MidFrame: 5, Handshake: 2, Resume: 2, HalfOpen: 1, Stall: 1},
		Phases: []Phase{
			{Name: "warm up", Duration: Duration(10 * time.Second), Mix: []Part{{Profile: Mixed, Weight: 1}}},
			{Duration: Duration(90 * time.Second), Rate: 500, Arrival: Even, Mix: []Part{
				{Profile: Lines, Weight: 3, Every: Duration(50 * time.Millisecond), Size: 4096}, {Profile: Echo},
			}},
		},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v\nwant %+v", p, want)
	}
	if p.Took() != 100*time.Second {
		t.Errorf("the phases take %v", p.Took())
	}
}

// A mapping takes what the command line takes.
func TestParseChaosMapping(t *testing.T) {
	p := new(Plan)
	err := Parse([]byte("chaos: {rst: 30/m, loss: 2%, speed: 1M, delay: 20ms}"), "f.yaml", p)
	if want := (Chaos{RST: 0.5, Loss: 0.02, Speed: 1 << 20, Delay: Duration(20 * time.Millisecond)}); err != nil || p.Chaos != want {
		t.Errorf("%+v, %v; want %+v", p.Chaos, err, want)
	}
}

// The command line sets members by the names that they have in a file.
func TestSet(t *testing.T) {
	p := Plan{Sessions: 1, Processes: 9, Chaos: Chaos{FIN: 3}}
	for name, text := range map[string]string{"sessions": "7", "tty": "true", "may-miss": "2%", "chaos": "rst=1/s", "ramp": "5s", "metrics": "http://m"} {
		if known, err := p.Set(name, text, name); err != nil || !known {
			t.Errorf("%s: known %v, %v", name, known, err)
		}
	}
	if want := (Plan{Sessions: 7, Processes: 9, TTY: true, MayMiss: 0.02, Chaos: Chaos{RST: 1}, Ramp: Duration(5 * time.Second), Metrics: "http://m"}); !reflect.DeepEqual(p, want) {
		t.Errorf("%+v\nwant %+v", p, want)
	}
	if known, err := p.Set("json", "x", "--json"); known || err != nil {
		t.Errorf("a member of no plan: known %v, %v", known, err)
	}
	_, err := p.Set("sessions", "x", "--sessions")
	wantError(t, "sessions", err, `--sessions is "x", expected a whole number`)
}

// Errors name the file and the line.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "f.yaml is empty",
		"a: [":                     "f.yaml:1: this is no YAML",
		"- x":                      "f.yaml:1: the file is a list, expected names with values",
		"x: 1\nsesions: 2":         `f.yaml:2: the file has no "sesions": did you mean sessions?`,
		"command: {argv: [rm]}":    `the file has no "command"`,
		"sessions: many":           `f.yaml:1: sessions is "many", expected a whole number`,
		"sessions: [1]":            "f.yaml:1: sessions is a list, expected a whole number",
		"sessions: 1\nsessions: 2": `f.yaml:2: "sessions" is there twice, also in line 1`,
		"tty: perhaps":             `tty is "perhaps", expected true or false`,
		"ramp: 5":                  `ramp is "5", expected a duration such as 30s`,
		"phases: 3":                `phases is "3", expected a list`,
		"chaos: {half-opn: 1}":     `chaos has no "half-opn": did you mean half-open?`,
		"chaos: {fin: fast}":       `chaos.fin is "fast", expected a rate such as 20/s`,
		"chaos: cutt=1":            "did you mean cut?",
		"may-miss: some":           `may-miss is "some", expected a share such as 1% or 0.01`,
		"chaos: {loss: 20/s}":      `f.yaml:1: chaos.loss is "20/s", expected a share such as 1% or 0.01`,
		"phases:\n- mix: [{profile: 7}, {weight: x}]": `f.yaml:2: phases[1].mix[2].weight is "x"`,
		"phases:\n- mix: ecoh":                        "did you mean echo?",
		"phases:\n- mix: [{size: x}]":                 "phases[1].mix[1].size",
	} {
		wantError(t, text, Parse([]byte(text), "f.yaml", new(Plan)), want)
	}
}

// All faults of a file are told at once.
func TestParseAllFaults(t *testing.T) {
	err := Parse([]byte("sessions: x\nprocesses: y\n"), "f.yaml", new(Plan))
	wantError(t, "two", err, "f.yaml:1: ")
	wantError(t, "two", err, "f.yaml:2: ")
}

// A file of aliases of aliases ends.
func TestParseAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("phases:\n- &a {duration: 1s, mix: echo}\n")
	for range 2000 {
		b.WriteString("- *a\n")
	}
	wantError(t, "many aliases", Parse([]byte(b.String()), "f.yaml", new(Plan)), "more than 1000 aliases")
}

// The settings of a plan have the names and the values of a file.
func TestSettings(t *testing.T) {
	var p Plan
	if err := Parse([]byte(file+"may-miss: 2%\n"), "f.yaml", &p); err != nil {
		t.Fatal(err)
	}
	p.Chaos.Delay = Duration(20 * time.Millisecond)
	var got []string
	for _, s := range Settings(&p) {
		got = append(got, s.Name+" "+s.Value)
	}
	want := []string{
		"tty true", "sessions 7", "seed 18446744073709551615", "ramp 5s",
		"phases[1].name warm up", "phases[1].duration 10s", "phases[1].mix[1].profile mixed", "phases[1].mix[1].weight 1",
		"phases[2].duration 1m30s", "phases[2].rate 500/s", "phases[2].arrival even", "phases[2].mix[1].profile lines", "phases[2].mix[1].weight 3",
		"phases[2].mix[1].size 4096", "phases[2].mix[1].every 50ms", "phases[2].mix[2].profile echo",
		"chaos.fin 3/s", "chaos.rst 3/s", "chaos.half-open 1/s", "chaos.mid-frame 5/s", "chaos.handshake 2/s", "chaos.resume 2/s", "chaos.stall 1/s", "chaos.delay 20ms",
		"may-miss 2%",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A plan survives its way into the report.
func TestJSON(t *testing.T) {
	p := Plan{Processes: 1, Command: &Command{Argv: []string{"x", "{n}"}, Timeout: Duration(time.Minute)}}
	if err := Parse([]byte(file), "f.yaml", &p); err != nil {
		t.Fatal(err)
	}
	p.Servers = []string{"ws://h:1"}
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Plan
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("%+v, %v; want %+v", back, err, p)
	}
	if !strings.Contains(string(data), `"duration":"1m30s"`) {
		t.Errorf("no duration as text in %s", data)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Plan
		if Parse(data, "f", &p) == nil {
			p.Complete()
		}
	})
}
