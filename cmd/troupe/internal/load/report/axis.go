package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A tick is a place of an axis that has a number. at is from 0, the begin of the axis, to 1.
type tick struct {
	at    float64
	label string
}

// An axis maps values to places from 0 to 1. A value outside of the axis has the place 0 or 1.
type axis struct {
	place  func(v float64) float64
	ticks  []tick
	powers float64 // of ten, of the axis of shares
}

// linear returns an axis from 0 to max or a little more. base is 10, or 1024 for bytes, so that the numbers are round.
func linear(highest float64, base int, label func(float64) string) axis {
	if !(highest > 0) || math.IsInf(highest, 0) {
		highest = 1
	}
	step := roundStep(highest/4, base)
	n := int(math.Ceil(highest/step - 1e-9))
	n = max(n, 1)
	top := float64(n) * step
	a := axis{place: func(v float64) float64 { return clamp(v / top) }}
	for i := range n + 1 {
		a.ticks = append(a.ticks, tick{float64(i) / float64(n), label(float64(i) * step)})
	}
	return a
}

// roundStep returns the next round number at or above v: 1, 2 or 5 of a power of ten, or, for bytes, a power of two.
func roundStep(v float64, base int) float64 {
	if base == 1024 {
		return math.Pow(2, math.Ceil(math.Log2(max(v, 1))))
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// whole is linear for counts, whose numbers have no fraction.
func whole(highest float64) axis { return linear(max(highest, 4), 10, count) }

// logarithmic returns an axis of durations from the power of ten at or below lowest to the one at or above highest. With at most two
// powers it has numbers between them, too.
func logarithmic(lowest, highest time.Duration) axis {
	from := math.Floor(math.Log10(float64(max(lowest, 1))) + 1e-9)
	to := math.Ceil(math.Log10(float64(max(highest, 1))) - 1e-9)
	if to <= from {
		to = from + 1
	}
	a := axis{place: func(v float64) float64 { return clamp((math.Log10(max(v, 1)) - from) / (to - from)) }}
	for p := from; p <= to; p++ {
		for _, m := range []float64{1, 2, 5} {
			if m > 1 && (to-from > 2 || p == to) {
				continue
			}
			v := m * math.Pow(10, p)
			a.ticks = append(a.ticks, tick{a.place(v), show.Latency(time.Duration(v))})
		}
	}
	return a
}

// clock returns an axis of the time since the begin of a run.
func clock(length time.Duration) axis {
	length = max(length, time.Second)
	a := axis{place: func(v float64) float64 { return clamp(v / float64(length)) }}
	step := clockSteps[len(clockSteps)-1]
	for _, s := range clockSteps {
		if length/s <= 6 {
			step = s
			break
		}
	}
	for length/step > 12 { // a run of days
		step *= 2
	}
	for i := range length/step + 1 {
		t := i * step
		a.ticks = append(a.ticks, tick{float64(t) / float64(length), clockLabel(t)})
	}
	return a
}

var clockSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour,
}

// clockLabel returns a time since the begin: 0 s, 45 s, 1:30, 1:00:00.
func clockLabel(t time.Duration) string {
	switch {
	case t < time.Minute:
		return fmt.Sprintf("%d s", t/time.Second)
	case t < time.Hour:
		return fmt.Sprintf("%d:%02d", t/time.Minute, t%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d:%02d:%02d", t/time.Hour, t%time.Hour/time.Minute, t%time.Minute/time.Second)
}

// shares returns the axis of a distribution of n values: from all to the rarest, in powers of ten: 0, 90 %, 99 %, 99.9 %, … The value of a place
// is the share of the values at or below it.
func shares(n int64) axis {
	powers := math.Ceil(math.Log10(float64(max(n, 10))) - 1e-9)
	powers = min(max(powers, 2), 6)
	a := axis{powers: powers, place: func(v float64) float64 {
		if v >= 1 {
			return 1
		}
		return clamp(-math.Log10(1-v) / powers)
	}}
	for p := range int(powers) + 1 {
		if powers == 6 && p == 5 { // the number would touch the next one in a narrow window
			continue
		}
		label := "0 %"
		if p > 0 {
			label = strconv.FormatFloat(100-100*math.Pow(10, -float64(p)), 'f', max(0, p-2), 64) + " %"
		}
		a.ticks = append(a.ticks, tick{float64(p) / powers, label})
	}
	if half := a.place(0.5); powers <= 2 { // with more powers its number would touch that of 0 %
		a.ticks = slices.Insert(a.ticks, 1, tick{half, "50 %"})
	}
	return a
}

// linearShares is the axis of a distribution without emphasis of the rare values.
func linearShares() axis {
	a := axis{place: clamp}
	for i := range 5 {
		a.ticks = append(a.ticks, tick{float64(i) / 4, fmt.Sprintf("%d %%", 25*i)})
	}
	return a
}

// clamp returns v in 0 to 1, and 0 for what is not a number.
func clamp(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1)
}

// count returns a number in at most four digits: 0, 850, 1.2k, 34k, 5M.
func count(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.size*0.9995 {
			return show.Significant(v/u.size) + u.name
		}
	}
	return show.Significant(v)
}

// size returns bytes for an axis or a cell.
func size(v float64) string { return show.Bytes(uint64(max(0, min(v, 1<<62)))) }

// axisOf returns the axis of values of a unit.
func axisOf(u result.Unit, lowest, highest float64) axis {
	switch u {
	case result.Nanoseconds:
		return logarithmic(time.Duration(lowest), time.Duration(highest))
	case result.Bytes, result.BytesPerSec:
		return linear(highest, 1024, size)
	case result.PerSecond:
		return linear(highest, 10, count)
	case result.Cores:
		return linear(highest, 10, show.Significant)
	}
	return whole(highest)
}

// tell returns a value of a unit, short enough for a window.
func tell(u result.Unit, v float64) string {
	switch u {
	case result.Nanoseconds:
		return show.Latency(time.Duration(v))
	case result.Bytes:
		return size(v)
	case result.BytesPerSec:
		return size(v) + "/s"
	case result.PerSecond:
		return count(v) + "/s"
	case result.Cores:
		return show.Significant(v)
	}
	return show.Number(int64(v))
}
