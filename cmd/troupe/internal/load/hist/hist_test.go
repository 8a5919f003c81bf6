package hist

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The buckets follow one another without a gap, and each is as narrow as Precision says.
func TestBuckets(t *testing.T) {
	for i := range buckets {
		lo, hi := lower(i), upper(i)
		if lo > hi || index(lo) != i || index(hi) != i || i > 0 && lo != upper(i-1)+1 {
			t.Fatalf("bucket %d is from %d to %d, with the indexes %d and %d; the one before ends at %d", i, lo, hi, index(lo), index(hi), upper(i-1))
		}
		if float64(hi-lo) > Precision*float64(lo) {
			t.Fatalf("bucket %d is from %d to %d: too wide", i, lo, hi)
		}
	}
	if index(Least) != 0 || index(Greatest) != buckets-1 {
		t.Fatalf("index(Least) = %d, index(Greatest) = %d of %d", index(Least), index(Greatest), buckets)
	}
	if buckets > 4200 {
		t.Fatalf("%d buckets", buckets)
	}
}

// durations are of all magnitudes, with some outside the range.
func durations() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		scale := rapid.IntRange(0, 44).Draw(t, "scale")
		return time.Duration(rapid.Int64Range(0, 1<<scale).Draw(t, "value")) - 5
	})
}

// values are what a histogram should hold.
type values []time.Duration

func (v values) check(t *rapid.T, h *H) {
	t.Helper()
	if h.Count() != int64(len(v)) {
		t.Fatalf("count is %d, want %d", h.Count(), len(v))
	}
	if len(v) == 0 {
		if h.Min() != 0 || h.Max() != 0 || h.Mean() != 0 || h.Quantile(.5) != 0 {
			t.Fatalf("an empty histogram has min %v, max %v, mean %v, median %v", h.Min(), h.Max(), h.Mean(), h.Quantile(.5))
		}
		return
	}
	sorted := slices.Sorted(slices.Values(v))
	if h.Min() != sorted[0] || h.Max() != sorted[len(v)-1] {
		t.Fatalf("min %v and max %v, want %v and %v", h.Min(), h.Max(), sorted[0], sorted[len(v)-1])
	}
	var sum float64
	for _, d := range v {
		sum += float64(d)
	}
	if want := sum / float64(len(v)); math.Abs(float64(h.Mean())-want) > 1+want*1e-9 {
		t.Fatalf("mean is %d, want %f", h.Mean(), want)
	}
	for _, q := range []float64{0, .001, .1, .25, .5, .75, .9, .99, .999, 1, rapid.Float64Range(0, 1).Draw(t, "q")} {
		want := sorted[max(int(math.Ceil(q*float64(len(v))))-1, 0)]
		if got := h.Quantile(q); got < want || got > h.Max() || float64(got-want) > Precision*float64(want) {
			t.Fatalf("quantile %g is %d, want %d", q, got, want)
		}
	}
	var n int64
	for _, c := range h.counts {
		n += c
	}
	if n != int64(len(v)) {
		t.Fatalf("the buckets have %d values, want %d", n, len(v))
	}
}

// A histogram tells of any values what the sorted slice of them tells: when it was recorded, merged of two, read from JSON, and reset.
func TestAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, parts [2]values
		var hs [2]H
		h := new(H)
		for side := range 2 {
			for _, d := range rapid.SliceOf(durations()).Draw(t, "durations") {
				every := time.Duration(0)
				if rapid.Bool().Draw(t, "corrected") {
					every = max(clamp(d)/time.Duration(rapid.IntRange(1, 300).Draw(t, "parts")), 1)
				}
				hs[side].RecordCorrected(d, every)
				parts[side] = append(parts[side], clamp(d))
				if every > 0 {
					for v := clamp(d) - every; v >= every; v -= every {
						parts[side] = append(parts[side], clamp(v))
					}
				}
			}
			parts[side].check(t, &hs[side])
			h.Merge(&hs[side])
			all[0] = append(all[0], parts[side]...)
		}
		all[0].check(t, h)
		all[0].check(t, h.Clone())

		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var back H
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all[0].check(t, &back)

		h.Reset()
		all[1].check(t, h)
		h.Merge(&hs[0])
		parts[0].check(t, h)
	})
}

// A stop of 1 s in a closed run of 1,000 operations a second is 1,000 late operations, not one.
func TestCorrection(t *testing.T) {
	var plain, corrected H
	for range 10_000 {
		plain.Record(time.Millisecond / 2)
		corrected.RecordCorrected(time.Millisecond/2, time.Millisecond)
	}
	plain.Record(time.Second)
	corrected.RecordCorrected(time.Second, time.Millisecond)
	if got := plain.Quantile(.999); got > time.Millisecond {
		t.Errorf("p99.9 without the correction is %v", got)
	}
	if got := corrected.Quantile(.999); got < 980*time.Millisecond {
		t.Errorf("p99.9 with the correction is %v", got)
	}
	if got := corrected.Count(); got != 11_000 {
		t.Errorf("count is %d, want 11,000", got)
	}
}

// The first bucket has values above 1 µs, and all values below, which count as 1 µs: their mean is not the middle of the bucket.
func TestCorrectionBelowLeast(t *testing.T) {
	var h H
	h.RecordCorrected(1003, 1) // 1003, 1002, 1001, and 1 to 1000 as 1000
	if h.Count() != 1003 || h.sum != 1003*1000+1+2+3 {
		t.Errorf("%d values with the sum %.0f, want 1003 values with the sum 1003006", h.Count(), h.sum)
	}
}

// An hour with the shortest interval costs as much as there are buckets, and no number overflows.
func TestCorrectionOfAnHour(t *testing.T) {
	var h H
	h.RecordCorrected(2*time.Hour, 1)
	if h.Count() != int64(time.Hour) {
		t.Errorf("count is %d, want %d", h.Count(), int64(time.Hour))
	}
	if got := h.Mean(); got < 29*time.Minute || got > 31*time.Minute {
		t.Errorf("mean is %v, want 30m", got)
	}
	if got := h.Quantile(.5); got < 29*time.Minute || got > 31*time.Minute {
		t.Errorf("median is %v, want 30m", got)
	}
}

// A text of another machine that is no histogram is refused, and changes nothing.
func TestUnmarshalRefuses(t *testing.T) {
	for _, text := range []string{
		`{"count":1,"min":2000,"max":2000,"sum":2000,"buckets":[[2000,-1]]}`,
		`{"count":2,"min":2000,"max":2000,"sum":2000,"buckets":[[2000,1]]}`,
		`{"count":1,"min":2000,"max":2000,"sum":2000,"buckets":[[5,1]]}`,
		`{"count":1,"min":2000,"max":2000,"sum":2000,"buckets":[[9000000000000000000,1]]}`,
		`{"count":1,"min":5,"max":2000,"sum":2000,"buckets":[[2000,1]]}`,
		`{"count":1,"min":2000,"max":90000,"sum":2000,"buckets":[[2000,1]]}`,
		`{"count":1,"min":2000,"max":2000,"sum":-1,"buckets":[[2000,1]]}`,
		`{"count":1,"min":2000,"max":2000,"sum":1e300,"buckets":[[2000,1]]}`,
		`{"count":-2,"min":2000,"max":2000,"sum":1,"buckets":[[2000,9223372036854775807],[3000,9223372036854775807]]}`,
		`[]`,
	} {
		var h H
		h.Record(time.Second)
		if err := json.Unmarshal([]byte(text), &h); err == nil || h.Count() != 1 || h.Max() != time.Second {
			t.Errorf("%s: error %v, count %d", text, err, h.Count())
		}
	}
	var h H
	if err := json.Unmarshal([]byte(`{"count":1,"min":2000,"max":2000,"sum":2000,"buckets":[[2000,1]]}`), &h); err != nil || h.Quantile(.5) != 2000 {
		t.Errorf("error %v, median %v", err, h.Quantile(.5))
	}
}

// The form of the JSON text is a promise to the programs that read reports.
func TestForm(t *testing.T) {
	var h H
	h.Record(2 * time.Microsecond)
	h.Record(2 * time.Microsecond)
	h.Record(time.Second)
	text, _ := json.Marshal(&h)
	const want = `{"count":3,"min":2000,"max":1000000000,"mean":333334666,"p50":2007,"p90":1000000000,"p99":1000000000,"p99.9":1000000000,` +
		`"sum":1000004000,"buckets":[[2007,2],[1002438655,1]]}`
	if string(text) != want {
		t.Errorf("the form is\n%s\nwant\n%s", text, want)
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"count":1,"min":2000,"max":2000,"sum":2000,"buckets":[[2000,1]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var h H
		if h.UnmarshalJSON(text) != nil {
			return
		}
		again, err := h.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var b H
		if err := b.UnmarshalJSON(again); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	var h H
	d := time.Duration(1)
	for b.Loop() {
		h.Record(d)
		d = (d*5 + 12345) & (1<<30 - 1)
	}
}

// TestNever: missed operations count as slower than all values, in each figure, after a merge and from JSON, too.
func TestNever(t *testing.T) {
	var a, b, back H
	for i := range 90 {
		a.Record(time.Duration(i+1) * time.Millisecond)
	}
	a.Miss(4)
	b.Miss(6)
	a.Merge(&b)
	text, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, h := range []*H{&a, &back, a.Clone()} {
		if h.Count() != 100 || h.Max() != Never || h.Mean() != Never || h.Min() != time.Millisecond {
			t.Errorf("count %d, max %v, mean %v, min %v", h.Count(), h.Max(), h.Mean(), h.Min())
		}
		for q, want := range map[float64]time.Duration{0: time.Millisecond, .5: 50 * time.Millisecond, .9: 90 * time.Millisecond, .901: Never, .99: Never, 1: Never} {
			if got := h.Quantile(q); got < want || float64(got-want) > Precision*float64(want) {
				t.Errorf("quantile %g is %v, want %v", q, got, want)
			}
		}
		if d := h.Done(); d.Count() != 90 || d.Max() != 90*time.Millisecond || d.Mean() > 46*time.Millisecond {
			t.Errorf("of the done ones: count %d, max %v, mean %v", d.Count(), d.Max(), d.Mean())
		}
	}
	if b.Min() != Never || b.Quantile(.01) != Never || b.Quantile(0) != Never {
		t.Errorf("of operations that were all missed, min is %v, p1 %v", b.Min(), b.Quantile(.01))
	}
	if b.Reset(); b.Count() != 0 || b.Max() != 0 {
		t.Errorf("after a reset, count is %d, max %v", b.Count(), b.Max())
	}
}
