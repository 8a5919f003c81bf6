// Package hist has a histogram of durations with a fixed relative precision (High Dynamic Range), for values from 1 µs to 1 h.
//
// Each power of two is divided into 128 buckets of the same width (log-linear). So a bucket is at most 1/128 as wide as its values, and
// 4,100 buckets of 8 bytes cover the whole range. Beside the values, a histogram counts missed operations: each is greater than all
// values.
package hist

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"time"
)

const (
	// Least is the smallest value: a value below Least counts as Least.
	Least = time.Microsecond
	// Greatest is the greatest value: a value above Greatest counts as Greatest.
	Greatest = time.Hour
	// Never is the duration of a missed operation.
	Never time.Duration = math.MaxInt64

	// Precision is the greatest relative error of a quantile: 0.8 %.
	Precision = 1.0 / perOctave

	mostCount = 1 << 53 // of a histogram that is read: hundreds of them can be merged

	perOctave = 128
	subBits   = 7 // log2 of perOctave
)

// An H is a histogram. Its zero value is empty. One goroutine at a time uses an H.
type H struct {
	counts   []int64 // by index; grows to the greatest index in use, at most buckets
	count    int64   // of the values
	never    int64   // missed operations
	sum      float64 // ns; a float, since 1 h a million times overflows an int64
	min, max time.Duration
}

// first is the index of Least in the numbering that starts at 0 ns. The counts of an H start there.
var (
	first   = number(Least)
	buckets = number(Greatest) - first + 1
)

// number returns the number of the bucket of d, counted from 0 ns.
func number(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-subBits-1, 0)
	return shift<<subBits + int(d>>shift)
}

// lower returns the least value of the bucket with the index i of counts.
func lower(i int) time.Duration {
	n := i + first
	shift := max(n>>subBits-1, 0)
	return time.Duration(n-shift<<subBits) << shift
}

// upper returns the greatest value of the bucket with the index i of counts.
func upper(i int) time.Duration { return lower(i+1) - 1 }

// index returns the index in counts. d is from Least to Greatest.
func index(d time.Duration) int { return number(d) - first }

func clamp(d time.Duration) time.Duration { return min(max(d, Least), Greatest) }

// Record adds a value. A value below 1 µs counts as 1 µs, and one above 1 h as 1 h.
func (h *H) Record(d time.Duration) {
	d = clamp(d)
	h.add(index(d), 1)
	h.extend(d, d, 1, float64(d))
}

// RecordCorrected adds a value of a closed run, and the values that an open run would have seen meanwhile: d-every, d-2*every, …, down
// to every (the correction of coordinated omission). every 0 or below: the same as Record.
func (h *H) RecordCorrected(d, every time.Duration) {
	d = clamp(d)
	h.Record(d)
	if every <= 0 {
		return
	}
	// Each round adds all values of one bucket, so an hour with an interval of 1 ns costs no more than there are buckets. The last round
	// adds the values up to Least: each of them counts as Least.
	for v := d - every; v >= every; {
		c := clamp(v)
		i := index(c)
		from := every
		if v > Least {
			from = max(from, lower(i))
		}
		n := int64((v-from)/every) + 1
		last := v - time.Duration(n-1)*every
		h.add(i, n)
		h.extend(clamp(last), c, n, float64(n)*(float64(c)+float64(clamp(last)))/2)
		v = last - every
	}
}

// Miss adds n missed operations.
func (h *H) Miss(n int64) { h.never += n }

func (h *H) add(i int, n int64) {
	if i >= len(h.counts) {
		// Room up to the end of the octave: most values of a run are near each other.
		grown := make([]int64, min((i/perOctave+1)*perOctave, buckets))
		copy(grown, h.counts)
		h.counts = grown
	}
	h.counts[i] += n
}

func (h *H) extend(least, greatest time.Duration, n int64, sum float64) {
	if h.count == 0 || least < h.min {
		h.min = least
	}
	h.max = max(h.max, greatest)
	h.count += n
	h.sum += sum
}

// Quantile returns the value below or at which the share q of the values and of the missed operations lies, with a relative error of at most
// Precision; Never: the share of the values is less than q. The result is never below the true value. Of an empty histogram it is 0. q is from
// 0 to 1.
func (h *H) Quantile(q float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	if !(q > 0) {
		return h.Min()
	}
	rank := min(int64(math.Ceil(q*float64(h.Count()))), h.Count())
	switch {
	case rank > h.count:
		return Never
	case rank == h.count:
		return h.max
	}
	rank = max(rank, 1)
	for i, n := range h.counts {
		if rank -= n; n > 0 && rank <= 0 {
			return min(max(upper(i), h.min), h.max)
		}
	}
	return h.max
}

// Count returns the number of values and of missed operations.
func (h *H) Count() int64 { return h.count + h.never }

// Done returns a copy without the missed operations.
func (h *H) Done() *H {
	done := h.Clone()
	done.never = 0
	return done
}

// Min returns the least value, exactly. Of an empty histogram the result is 0, and Never if all operations were missed.
func (h *H) Min() time.Duration {
	if h.count == 0 {
		return h.Max()
	}
	return h.min
}

// Max returns the greatest value, exactly. Of an empty histogram the result is 0, and Never if an operation was missed.
func (h *H) Max() time.Duration {
	if h.never > 0 {
		return Never
	}
	return h.max
}

// Mean returns the mean, exactly. Of an empty histogram the result is 0, and Never if an operation was missed.
func (h *H) Mean() time.Duration {
	switch {
	case h.never > 0:
		return Never
	case h.count == 0:
		return 0
	}
	return time.Duration(h.sum / float64(h.count))
}

// Of returns the histogram of a name in m, which Of makes if it is not there yet.
func Of(m map[string]*H, name string) *H {
	if m[name] == nil {
		m[name] = new(H)
	}
	return m[name]
}

// Merge adds all values and missed operations of o. A nil o has none.
func (h *H) Merge(o *H) {
	if o == nil {
		return
	}
	h.never += o.never
	if o.count == 0 {
		return
	}
	for i := len(o.counts) - 1; i >= 0; i-- { // from above: counts grow once
		if n := o.counts[i]; n > 0 {
			h.add(i, n)
		}
	}
	h.extend(o.min, o.max, o.count, o.sum)
}

// Reset removes all values, and keeps the memory for the next ones.
func (h *H) Reset() {
	clear(h.counts)
	*h = H{counts: h.counts[:len(h.counts):len(h.counts)]}
}

// Clone returns a copy. The clone of nil is empty.
func (h *H) Clone() *H {
	c := new(H)
	c.Merge(h)
	return c
}

// form is an H in JSON. All durations are in nanoseconds. Min, Max and Mean are of the values alone. The quantiles are for readers, and null
// for Never: UnmarshalJSON calculates them anew.
type form struct {
	Count   int64          `json:"count"`           // of the values
	Missed  int64          `json:"missed,omitzero"` // operations
	Min     time.Duration  `json:"min"`
	Max     time.Duration  `json:"max"`
	Mean    time.Duration  `json:"mean"`
	P50     *time.Duration `json:"p50"`
	P90     *time.Duration `json:"p90"`
	P99     *time.Duration `json:"p99"`
	P999    *time.Duration `json:"p99.9"`
	Sum     float64        `json:"sum"`
	Buckets [][2]int64     `json:"buckets"` // the greatest value of a bucket, and how many values lie in it
}

// MarshalJSON writes the buckets that are not empty.
func (h *H) MarshalJSON() ([]byte, error) {
	quantile := func(q float64) *time.Duration {
		if d := h.Quantile(q); d != Never {
			return &d
		}
		return nil
	}
	f := form{
		Count: h.count, Missed: h.never, Min: h.min, Max: h.max, Mean: h.Done().Mean(), Sum: h.sum,
		P50: quantile(.5), P90: quantile(.9), P99: quantile(.99), P999: quantile(.999),
		Buckets: [][2]int64{},
	}
	for i, n := range h.counts {
		if n > 0 {
			f.Buckets = append(f.Buckets, [2]int64{int64(upper(i)), n})
		}
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads what MarshalJSON wrote. The text may come from another machine: what cannot be a histogram is an error.
func (h *H) UnmarshalJSON(text []byte) error {
	var f form
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	var n H
	lowest, highest := buckets, -1
	for _, b := range f.Buckets {
		value, count := time.Duration(b[0]), b[1]
		if value < Least || value > upper(buckets-1) || count < 1 || count > mostCount-n.count {
			return fmt.Errorf("hist: a bucket of %d values up to %d ns cannot be", count, value)
		}
		i := index(min(value, Greatest))
		lowest, highest = min(lowest, i), max(highest, i)
		n.add(i, count)
		n.count += count
	}
	if f.Missed < 0 || f.Missed > mostCount {
		return fmt.Errorf("hist: %d operations cannot be missed", f.Missed)
	}
	n.never = f.Missed
	if n.count != f.Count {
		return fmt.Errorf("hist: count is %d, but the buckets have %d values", f.Count, n.count)
	}
	if n.count > 0 {
		if f.Min < Least || f.Min > f.Max || f.Max > Greatest || index(f.Min) != lowest || index(f.Max) != highest {
			return fmt.Errorf("hist: min %d ns and max %d ns do not fit the buckets", f.Min, f.Max)
		}
		if mean := f.Sum / float64(f.Count); !(mean >= float64(f.Min)*.99 && mean <= float64(f.Max)*1.01) {
			return fmt.Errorf("hist: sum %v does not fit min, max and count", f.Sum)
		}
		n.min, n.max, n.sum = f.Min, f.Max, f.Sum
	}
	*h = n
	return nil
}
