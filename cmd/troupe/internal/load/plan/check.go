package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
)

const (
	maxSessions  = 100_000
	maxProcesses = 1_000_000 // of all sessions together: the tables of a run stay within some hundred MiB
	maxPhases    = 100
	maxParts     = 100
	maxWeight    = 1_000_000
	maxRate      = 1_000_000 // operations per second
	maxActs      = 10_000    // of one kind of chaos, per second
	maxSize      = 1 << 20
	maxTime      = Duration(7 * 24 * time.Hour)
	// maxStall is well below the times after which a silent server, a session without a connection, or a program that does not end counts as
	// lost.
	maxStall     = Duration(20 * time.Second)
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
	var errs []error
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
	switch {
	case p.Sessions < 1 || p.Sessions > maxSessions:
		fault("sessions is %d, expected 1 to %d", p.Sessions, maxSessions)
	case p.Processes < 1 || p.Processes > maxProcesses:
		fault("processes is %d, expected 1 to %d", p.Processes, maxProcesses)
	case p.Sessions*p.Processes > maxProcesses:
		fault("%d sessions with %d processes each are %d processes, and the limit is %d", p.Sessions, p.Processes, p.Sessions*p.Processes, maxProcesses)
	}
	if p.Ramp < 0 || p.Ramp > maxTime {
		fault("ramp is %v, expected 0 to %v", p.Ramp, maxTime)
	}
	if !(p.MayMiss >= 0 && p.MayMiss <= 1) {
		fault("may-miss is %v, expected a share from 0 to 1", p.MayMiss)
	}
	if p.AnswerWithin < 0 || p.AnswerWithin > maxTime {
		fault("answer-within is %v, expected a duration such as 30s", p.AnswerWithin)
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
	if err := p.Chaos.check(); err != nil {
		errs = append(errs, err)
	}
	if p.Chaos.Stop > 0 && len(p.PIDs) == 0 {
		fault("chaos.stop stops the server: give its pid, which must be of this machine")
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
	var errs []error
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if ph.Duration < minPhase || ph.Duration > maxTime {
		fault("duration is %v, expected %v to %v", ph.Duration, minPhase, maxTime)
	}
	if !(ph.Rate >= 0 && ph.Rate <= maxRate) {
		fault("rate is %v, expected 0 (each process begins its next operation after the last) to %d operations per second", ph.Rate, maxRate)
	}
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
	var errs []error
	fault := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", p.Profile, fmt.Sprintf(format, a...)))
	}
	if p.Weight < 1 || p.Weight > maxWeight {
		fault("weight is %d, expected 1 to %d", p.Weight, maxWeight)
	}
	if p.Size < 0 || p.Size > maxSize {
		fault("size is %d, expected 1 to %d bytes", p.Size, maxSize)
	}
	if p.Every < 0 || p.Every > maxTime {
		fault("every is %v, expected a duration such as 100ms", p.Every)
	}
	if p.Life < 0 || p.Life > maxTime {
		fault("life is %v, expected a duration such as 10s, or 0 for the whole phase", p.Life)
	}
	if p.Viewers < 0 || p.Viewers > 1000 {
		fault("viewers is %d, expected 1 to 1000", p.Viewers)
	}
	if p.Restarts < 0 || p.Restarts > 100_000 {
		fault("restarts is %d, expected 1 to 100000", p.Restarts)
	}
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
			fault("%s has no meaning for this profile%s: leave it out", m.name, m.of)
		}
	}
	return errors.Join(errs...)
}

func noProfile(name string) error {
	var names []string
	for _, p := range Profiles() {
		names = append(names, string(p))
	}
	if near := show.Nearest(name, names); near != "" {
		return fmt.Errorf("no profile has the name %q: did you mean %s?", name, near)
	}
	return fmt.Errorf("no profile has the name %q: there are %s", name, strings.Join(names, ", "))
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

func (c *Chaos) check() error {
	var errs []error
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf("chaos."+format, a...)) }
	for _, k := range c.Rates() {
		if v := *k.PerSecond; !(v >= 0 && v <= maxActs) {
			fault("%s is %v, expected 0 to %d per second", k.Name, v, maxActs)
		}
	}
	if c.StallFor < 0 || c.StallFor > maxStall {
		fault("stall-for is %v, expected 0 (it means 1s) to %v: after a longer stall, sessions and programs would count as lost", c.StallFor, maxStall)
	}
	if c.Delay < 0 || c.Delay > Duration(time.Minute) {
		fault("delay is %v, expected 0 to 1m", c.Delay)
	}
	if c.Speed != 0 && c.Speed < 1000 {
		fault("speed is %d, expected 1000 or more bytes per second, or 0 for no limit", c.Speed)
	}
	if !(c.Loss >= 0 && c.Loss <= 0.5) {
		fault("loss is %v, expected a share from 0 to 0.5", c.Loss)
	}
	return errors.Join(errs...)
}
