package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxProcesses = 1_000_000 // of all sessions together: the tables of a run stay within some hundred MiB
	maxPhases    = 100
	maxParts     = 100
	maxWeight    = 1_000_000
	maxRate      = 1_000_000 // operations per second
	maxTime      = Duration(7 * 24 * time.Hour)
	answerWithin = Duration(30 * time.Second)
	minPhase     = Duration(10 * time.Millisecond)
)

// Profiles returns all profiles, also Mixed, in the order of the documentation.
func Profiles() []Profile {
	return []Profile{Spawn, Lines, Flood, Echo, Idle, Restart, Upload, Viewers, Attach, Mixed}
}

// Default returns the values that replace zeros in a Part with profile p. A zero stays if the profile has no such setting.
func Default(p Profile) Part {
	part := Part{Profile: p, Weight: 1}
	switch p {
	case Spawn:
		part.Size = 64
	case Lines, Attach:
		part.Size, part.Every = 100, Duration(100*time.Millisecond)
	case Viewers:
		part.Size, part.Every, part.Viewers = 100, Duration(100*time.Millisecond), 3
	case Flood:
		part.Size = 8 << 10
	case Echo:
		part.Size, part.Every = 1, Duration(100*time.Millisecond)
	case Restart:
		part.Size, part.Restarts = 64, 10
	case Upload:
		part.Size = 16 << 10
	}
	return part
}

// mixed is what Mixed stands for. Most programs live for a while and are followed by others, so that starts, ends and output of all kinds
// come at any moment.
var mixed = []Part{
	{Profile: Spawn, Weight: 6},
	{Profile: Lines, Weight: 6, Life: Duration(10 * time.Second)},
	{Profile: Echo, Weight: 4, Life: Duration(10 * time.Second)},
	{Profile: Idle, Weight: 2, Life: Duration(10 * time.Second)},
	{Profile: Upload, Weight: 2, Life: Duration(5 * time.Second)},
	{Profile: Flood, Weight: 1, Life: Duration(time.Second)},
	{Profile: Restart, Weight: 1},
	{Profile: Viewers, Weight: 1, Life: Duration(10 * time.Second)},
	{Profile: Attach, Weight: 1, Life: Duration(10 * time.Second)},
}

// Complete fills in what is left out, replaces Mixed by its profiles, and checks the plan. Its errors name the member as in a file.
func (p *Plan) Complete() error {
	p.Encoding = cmp.Or(p.Encoding, "msgpack")
	p.AnswerWithin = cmp.Or(p.AnswerWithin, answerWithin)
	if p.Chaos.StallFor == 0 && p.Chaos.Waits() {
		p.Chaos.StallFor = Duration(time.Second)
	}
	for i := range p.Phases {
		ph := &p.Phases[i]
		if ph.Rate > 0 {
			ph.Arrival = cmp.Or(ph.Arrival, Poisson)
		}
		var mix []Part
		for _, part := range ph.Mix {
			part.Weight = cmp.Or(part.Weight, 1)
			if part.Profile != Mixed {
				mix = append(mix, part.complete())
				continue
			}
			if part != (Part{Profile: Mixed, Weight: part.Weight}) {
				return fmt.Errorf("%s: the profile mixed has only a weight: name the profiles of your own mix", p.phase(i))
			}
			for _, m := range mixed {
				if part.Weight > 0 && part.Weight <= maxWeight/m.Weight {
					m.Weight *= part.Weight
				} else {
					m.Weight = part.Weight // for the error
				}
				mix = append(mix, m.complete())
			}
		}
		ph.Mix = mix
	}
	return p.Check()
}

func (p Part) complete() Part {
	d := Default(p.Profile)
	p.Size = cmp.Or(p.Size, d.Size)
	p.Every = cmp.Or(p.Every, d.Every)
	p.Viewers = cmp.Or(p.Viewers, d.Viewers)
	p.Restarts = cmp.Or(p.Restarts, d.Restarts)
	return p
}

// Named returns the profiles of all phases, each once.
func (p *Plan) Named() (names []string) {
	for _, ph := range p.Phases {
		for _, part := range ph.Mix {
			if name := string(part.Profile); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Took returns the sum of the durations of all phases.
func (p *Plan) Took() time.Duration {
	var sum Duration
	for _, ph := range p.Phases {
		sum += ph.Duration
	}
	return time.Duration(sum)
}

// Check returns all that is wrong with a plan, also with one that comes from a report.
func (p *Plan) Check() error {
	errs := slices.Concat(faults(p, ""), faults(&p.Chaos, "chaos."))
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(p.Servers) == 0 {
		fault("servers: name at least one server by its URL")
	}
	for _, s := range p.Servers {
		if err := checkURL(s); err != nil {
			fault("servers: %w", err)
		}
	}
	if p.Encoding != "json" && p.Encoding != "msgpack" {
		fault("encoding is %q, expected json or msgpack", p.Encoding)
	}
	if n := p.Sessions * p.Processes; n > maxProcesses {
		fault("%d sessions with %d processes each are %d processes, and the limit is %d", p.Sessions, p.Processes, n, maxProcesses)
	}
	if _, err := p.Placement(); err != nil {
		fault("labels: %w", err)
	}
	if p.Workers > p.Sessions {
		fault("workers is %d, and there are %d sessions: each worker needs one", p.Workers, p.Sessions)
	}
	if p.Workers > 0 && (p.Chaos.Stop > 0 || p.Chaos.KillServer > 0) {
		fault("chaos.stop and chaos.kill-server end the workers with their server: leave them or the workers out")
	}
	if p.Workers > 0 && p.Command != nil {
		fault("workers are for a load without a command, which needs none: the server runs it")
	}
	for _, pid := range p.PIDs {
		if pid < 2 {
			fault("pids: %d is not a process of a server", pid)
		}
	}
	if p.Metrics != "" {
		if u, err := url.Parse(p.Metrics); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			fault("metrics is %q, expected a URL such as http://HOST:7766/metrics", p.Metrics)
		}
	}
	if p.Chaos.Speed != 0 && p.Chaos.Speed < 1000 {
		fault("chaos.speed is %d, expected 1000 or more bytes per second, or 0 for no limit", p.Chaos.Speed)
	}
	if p.Chaos.Stop > 0 && len(p.PIDs) == 0 {
		fault("chaos.stop stops the server: give its pid, which must be of this machine")
	}
	if p.Chaos.KillServer > 0 && len(p.PIDs) == 0 {
		fault("chaos.kill-server kills the server: give the pid of its holder, which must be of this machine")
	}
	if p.Command != nil {
		errs = append(errs, p.Command.check(p))
		return errors.Join(errs...)
	}
	if len(p.Phases) == 0 || len(p.Phases) > maxPhases {
		fault("there are %d phases, expected 1 to %d", len(p.Phases), maxPhases)
	}
	sum := Duration(0)
	for i, ph := range p.Phases {
		if err := ph.check(); err != nil {
			fault("%s: %w", p.phase(i), err)
		}
		sum += min(ph.Duration, maxTime)
	}
	if sum > maxTime {
		fault("the phases take %v together, and the limit is %v", sum, maxTime)
	}
	return errors.Join(errs...)
}

// phase names a phase for errors.
func (p *Plan) phase(i int) string {
	name := fmt.Sprintf("phase %d", i+1)
	if p.Phases[i].Name != "" {
		name += fmt.Sprintf(" (%s)", p.Phases[i].Name)
	}
	return name
}

// checkURL refuses what transport.Dial refuses.
func checkURL(s string) error {
	for _, scheme := range []string{"unix://", "unix+frames://"} {
		if path, ok := strings.CutPrefix(s, scheme); ok && path != "" {
			return nil
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss":
		return fmt.Errorf("%q is no server: write ws://HOST:PORT, wss://HOST:PORT, unix://PATH or unix+frames://PATH", s)
	case u.User != nil:
		return fmt.Errorf("the URL of %s has a user or password, and the report has the URL: leave it out", u.Host)
	}
	return nil
}

func (ph *Phase) check() error {
	errs := faults(ph, "")
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch ph.Arrival {
	case "":
	case Poisson, Even:
		if ph.Rate == 0 {
			fault("arrival is %s, and there is no rate: arrival says how operations with a rate are spread", ph.Arrival)
		}
	default:
		fault("arrival is %q, expected poisson or even", string(ph.Arrival))
	}
	if len(ph.Mix) == 0 || len(ph.Mix) > maxParts {
		fault("mix has %d profiles, expected 1 to %d", len(ph.Mix), maxParts)
	}
	for _, part := range ph.Mix {
		if err := part.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *Part) check() error {
	if !slices.Contains(Profiles(), p.Profile) {
		return noProfile(string(p.Profile))
	}
	errs := faults(p, string(p.Profile)+": ")
	d := Default(p.Profile)
	for _, m := range []struct {
		name      string
		set, used bool
		of        string
	}{
		{"size", p.Size != 0, d.Size != 0, ""},
		{"every", p.Every != 0, d.Every != 0, ""},
		{"life", p.Life != 0, p.Profile != Spawn && p.Profile != Restart, ""},
		{"viewers", p.Viewers != 0, d.Viewers != 0, "; the profile viewers has"},
		{"restarts", p.Restarts != 0, d.Restarts != 0, "; the profile restart has"},
	} {
		if m.set && !m.used {
			errs = append(errs, fmt.Errorf("%s: %s has no meaning for this profile%s: leave it out", p.Profile, m.name, m.of))
		}
	}
	return errors.Join(errs...)
}

func noProfile(name string) error {
	var names []string
	for _, p := range Profiles() {
		names = append(names, string(p))
	}
	return fmt.Errorf("no profile has the name %q: %s", name, instead(name, names))
}

func (c *Command) check(p *Plan) error {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return errors.New("the command has no program")
	case c.Timeout < 0 || c.Timeout > maxTime:
		return fmt.Errorf("the timeout of the command is %v, expected 0 to %v", c.Timeout, maxTime)
	case c.Again && (p.Took() < time.Duration(minPhase) || p.Took() > time.Duration(maxTime)):
		return fmt.Errorf("the commands run again for %v, expected %v to %v", p.Took(), minPhase, maxTime)
	}
	return nil
}

// Waits reports whether StallFor has a meaning.
func (c *Chaos) Waits() bool { return c.Stall > 0 || c.Freeze > 0 || c.Stop > 0 }
