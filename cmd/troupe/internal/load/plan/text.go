package plan

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// ParseMix reads profiles as people write them: profiles with their weights and settings, as in "mixed", "lines,echo", or
// "lines=3:every=50ms:size=200,echo=1".
func ParseMix(text string) ([]Part, error) {
	var mix []Part
	for one := range strings.SplitSeq(text, ",") {
		head, settings, has := strings.Cut(strings.TrimSpace(one), ":")
		name, weight, weighs := strings.Cut(head, "=")
		part := Part{Profile: Profile(name), Weight: 1}
		if name == "" {
			return nil, fmt.Errorf("%q lacks the name of a profile: write mixed, lines, or lines=3,echo=1", text)
		}
		if !slices.Contains(Profiles(), part.Profile) {
			return nil, noProfile(name)
		}
		if weighs {
			n, err := strconv.Atoi(weight)
			if err != nil || n < 1 || n > maxWeight {
				return nil, fmt.Errorf("%q is not a weight of the profile %s: write a whole number from 1 to %d", weight, name, maxWeight)
			}
			part.Weight = n
		}
		if has {
			for s := range strings.SplitSeq(settings, ":") {
				if err := part.set(s); err != nil {
					return nil, fmt.Errorf("profile %s: %w", name, err)
				}
			}
		}
		mix = append(mix, part)
	}
	return mix, nil
}

// set reads a setting such as every=50ms.
func (p *Part) set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	_, fields := members(reflect.ValueOf(p).Elem())
	field, known := fields[name]
	if !known || name == "profile" || name == "weight" {
		return fmt.Errorf("%q is not a setting: there are size, every, life, viewers and restarts, as in lines:every=50ms", text)
	}
	return scalar(value, field, name)
}

// A Rate is the rate of a kind of chaos.
type Rate struct {
	Name      string
	PerSecond *float64
	cut       float64 // its share of "cut"
}

// Rates returns all rates of c. Half-open connections are rare among cuts: a client needs seconds to notice one.
func (c *Chaos) Rates() []Rate {
	return []Rate{
		// The acts handshake and resume begin with a cut by FIN or RST: with these shares, 25 % of all cuts are of each.
		{"fin", &c.FIN, 0.15}, {"rst", &c.RST, 0.15}, {"mid-frame", &c.MidFrame, 0.25},
		{"handshake", &c.Handshake, 0.1}, {"resume", &c.Resume, 0.1}, {"half-open", &c.HalfOpen, 0.05},
		{"stall", &c.Stall, 0}, {"takeover", &c.Takeover, 0}, {"kill", &c.Kill, 0}, {"freeze", &c.Freeze, 0}, {"stop", &c.Stop, 0},
	}
}

// ChaosNames are the names that ParseChaos knows.
func ChaosNames() (names []string) {
	names = append(names, "cut")
	for _, k := range new(Chaos).Rates() {
		names = append(names, k.Name)
	}
	return append(names, "stall-for", "delay", "speed", "loss")
}

// ParseChaos reads chaos as people write it: "cut=20/s,stall=1/s", "rst=5,delay=20ms,speed=1M,loss=1%". A rate is per second, or N/m per
// minute. cut stands for all kinds of cuts. "none" is no chaos.
func ParseChaos(text string) (c Chaos, err error) {
	if text == "none" || text == "" {
		return c, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		name, value, has := strings.Cut(strings.TrimSpace(one), "=")
		if !has {
			return c, fmt.Errorf("%q lacks its value: write it as in cut=20/s", one)
		}
		if err := c.set(name, value); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *Chaos) set(name, value string) error {
	switch _, fields := members(reflect.ValueOf(c).Elem()); {
	case name == "cut":
		rate, err := ParseRate(value)
		for _, k := range c.Rates() {
			*k.PerSecond += rate * k.cut
		}
		return named(name, err)
	case fields[name].Kind() == reflect.Float64 && name != "loss":
		rate, err := ParseRate(value)
		fields[name].SetFloat(fields[name].Float() + rate)
		return named(name, err)
	case fields[name].IsValid():
		return scalar(value, fields[name], name)
	}
	if near := show.Nearest(name, ChaosNames()); near != "" {
		return fmt.Errorf("no chaos has the name %q: did you mean %s?", name, near)
	}
	return fmt.Errorf("no chaos has the name %q: there are %s", name, strings.Join(ChaosNames(), ", "))
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// ParseShare reads a share of 1. what names it for the error.
func ParseShare(text, what string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, expected a share such as 1%% or 0.01", what, text)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

var errRate = errors.New("expected a rate such as 20/s, 20 (per second too) or 5/m")

// ParseRate reads a rate and returns it per second.
func ParseRate(text string) (float64, error) {
	digits, unit, has := strings.Cut(text, "/")
	per, known := map[string]float64{"s": 1, "m": 60, "min": 60, "h": 3600}[unit]
	if !has {
		per, known = 1, true
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(v >= 0) || v > maxRate*3600 {
		return 0, fmt.Errorf("%q is not a rate: %w", text, errRate)
	}
	return v / per, nil
}
