package plan

import (
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
	m, known := find(reflect.ValueOf(p).Elem(), name)
	if !known || name == "profile" || name == "weight" {
		return fmt.Errorf("%q is not a setting: there are size, every, life, viewers and restarts, as in lines:every=50ms", text)
	}
	return m.set(value, name)
}

// A Rate is the rate of a kind of chaos.
type Rate struct {
	Name      string
	PerSecond *float64
	cut       float64 // its share of "cut"
}

// Rates returns all rates of c.
func (c *Chaos) Rates() (rates []Rate) {
	for _, m := range members(reflect.ValueOf(c).Elem()) {
		if rate, ok := m.Addr().Interface().(*float64); ok && m.tag.Get("as") == "rate" {
			cut, _ := strconv.ParseFloat(m.tag.Get("cut"), 64) // without the tag: 0
			rates = append(rates, Rate{m.name, rate, cut})
		}
	}
	return rates
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
	m, known := find(reflect.ValueOf(c).Elem(), name)
	switch {
	case !known && name != "cut":
		return fmt.Errorf("no chaos has the name %q: %s", name, instead(name, append([]string{"cut"}, names(reflect.ValueOf(c).Elem())...)))
	case known && m.tag.Get("as") != "rate":
		return m.set(value, name)
	}
	rate, err := ParseRate(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, k := range c.Rates() {
		switch name {
		case "cut":
			*k.PerSecond += rate * k.cut
		case k.Name:
			*k.PerSecond += rate
		}
	}
	return nil
}

// instead proposes the nearest of names, or else names all of them.
func instead(name string, names []string) string {
	if near := show.Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "there are " + strings.Join(names, ", ")
}

// Descriptions of texts, for errors.
const (
	aShare = "a share such as 1% or 0.01"
	aRate  = "a rate such as 20/s, 20 (per second too) or 5/m"
)

// ParseShare reads a share of 1.
func ParseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a share: expected %s", text, aShare)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// ParseRate reads a rate and returns it per second.
func ParseRate(text string) (float64, error) {
	digits, unit, has := strings.Cut(text, "/")
	per, known := map[string]float64{"s": 1, "m": 60, "min": 60, "h": 3600}[unit]
	if !has {
		per, known = 1, true
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(v >= 0) || v > maxRate*3600 {
		return 0, fmt.Errorf("%q is not a rate: expected %s", text, aRate)
	}
	return v / per, nil
}
