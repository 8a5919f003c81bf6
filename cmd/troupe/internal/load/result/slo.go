package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An SLO is a condition on a figure of a Result, such as echo.p99<50ms, wrong=0, starts/s>100 or memory<1GiB. Figures of usage are the maximum
// over the steps of the run, rates the mean over the steps under load.
type SLO struct {
	text   string
	figure figure
	op     string
	value  float64
}

// ops are the comparisons, the longer ones first.
var ops = []string{"<=", ">=", "==", "!=", "<", ">", "="}

// ParseSLO reads an SLO. The error names the known figures.
func ParseSLO(text string) (SLO, error) {
	i := strings.IndexAny(text, "<>=!")
	if i < 0 {
		return SLO{}, fmt.Errorf("the SLO %q has no comparison: write it like echo.p99<50ms, wrong=0 or starts/s>100", text)
	}
	s := SLO{text: strings.TrimSpace(text)}
	for _, op := range ops {
		if strings.HasPrefix(text[i:], op) {
			s.op = op
			break
		}
	}
	if s.op == "" {
		return SLO{}, fmt.Errorf("the SLO %q has no comparison that is known: use <, <=, =, !=, >= or >", text)
	}
	var err error
	if s.figure, err = figureOf(text[:i]); err != nil {
		if strings.TrimSpace(text[:i]) == "" {
			err = fmt.Errorf("it begins with no name of a figure")
		}
		return SLO{}, fmt.Errorf("the SLO %q: %w. %s", text, err, allFigures())
	}
	if s.value, err = s.figure.unit.parse(text[i+len(s.op):]); err != nil {
		return SLO{}, fmt.Errorf("the SLO %q: %w", text, err)
	}
	return s, nil
}

// units are what may follow a number. K and k are 1,000.
var units = map[string]float64{
	"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// parse reads a value of a unit.
func (u Unit) parse(text string) (float64, error) {
	plain := strings.ReplaceAll(strings.TrimSpace(text), " ", "")
	if u == Nanoseconds {
		d, err := time.ParseDuration(plain)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is not a duration: write it like 50ms, 1.5s or 300us", strings.TrimSpace(text))
		}
		return float64(d), nil
	}
	plain = strings.ToLower(strings.ReplaceAll(plain, ",", ""))
	digits := strings.TrimRight(strings.TrimSuffix(plain, "/s"), "bgikmt")
	factor, ok := units[strings.TrimSuffix(plain, "/s")[len(digits):]]
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a number: write it like 0, 1.5, 20k, 100MB or 2GiB", strings.TrimSpace(text))
	}
	return v * factor, nil
}

// A Verdict says whether an SLO was met.
type Verdict struct {
	SLO string  `json:"slo"`
	Met bool    `json:"met"`
	Got float64 `json:"got"` // in Unit
	// Unit is ns, bytes, /s, bytes/s, cores, or "" of a number.
	Unit Unit `json:"unit,omitempty"`
	// Missing says why there is no value; the SLO is not met then.
	Missing string `json:"missing,omitempty"`
}

// Check compares a Result with the SLO. A figure that was not measured misses its SLO.
func (s SLO) Check(r *Result) Verdict {
	got, missing := s.figure.of(r)
	v := Verdict{SLO: s.text, Got: got, Unit: s.figure.unit, Missing: missing}
	if missing != "" {
		return v
	}
	switch s.op {
	case "<":
		v.Met = got < s.value
	case "<=":
		v.Met = got <= s.value
	case ">":
		v.Met = got > s.value
	case ">=":
		v.Met = got >= s.value
	case "!=":
		v.Met = got != s.value
	default:
		v.Met = got == s.value
	}
	return v
}
