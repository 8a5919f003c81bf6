package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes returns a number of bytes for people, in at most three digits and a unit of 1024: 0 B, 812 B, 1.5 KiB,
// 34 MiB.
func Bytes[N ~int | ~int64 | ~uint64](n N) string {
	if n < 0 {
		return "-" + Bytes(-uint64(n))
	}
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for ; v >= 999.5 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i > 0 && v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, units[i])
	}
	return fmt.Sprintf("%.0f %s", v, units[i])
}

// Age returns a time span for people, in its largest unit, or its two largest while the first is small: 0s, 45s, 3m,
// 1h12m, 13h, 2d4h, 90d. A negative span is 0s.
func Age(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch {
	case s < minute:
		return fmt.Sprintf("%ds", s)
	case s < hour:
		return fmt.Sprintf("%dm", s/minute)
	case s < day:
		return two(s, hour, minute, "h", "m")
	}
	return two(s, day, hour, "d", "h")
}

// AgeMs is Age for a number of milliseconds from a server.
func AgeMs(ms uint64) string { return Age(time.Duration(min(ms, 1<<43)) * time.Millisecond) }

// two writes s in a large unit, and below 10 of them also in a small unit.
func two(s, large, small int64, l, sm string) string {
	n, rest := s/large, s%large/small
	if n >= 10 || rest == 0 {
		return fmt.Sprintf("%d%s", n, l)
	}
	return fmt.Sprintf("%d%s%d%s", n, l, rest, sm)
}

// Number returns an integer for people, with a comma between thousands: 812, 1,203, 12,004,000.
func Number[N ~int | ~int64 | ~uint64](n N) string {
	digits, sign := fmt.Sprint(n), ""
	if n < 0 {
		digits, sign = digits[1:], "-"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Latency returns a short duration for people, in at most three digits and one unit: 0, 340 µs, 1.24 ms, 12.4 ms, 812 ms, 1.5 s,
// 90 s. From 100 s on it has two units: 1m40s, 1h5m.
func Latency(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "never"
	case d < 0:
		return "-" + Latency(-max(d, -1<<63+2))
	case d == 0:
		return "0"
	case d >= 99500*time.Millisecond:
		if d = d.Round(time.Second); d < time.Hour {
			return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
		}
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}, {time.Nanosecond, "ns"}} {
		v := float64(d) / float64(u.size)
		if v < 0.9995 && u.size > 1 {
			continue
		}
		return Significant(v) + " " + u.name
	}
	return ""
}

// Significant returns a number from 0 to 999 in at most three digits, without zeros at the end of its fraction.
func Significant(v float64) string {
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// ParseBytes reads a number of bytes with a unit of 1024: 512M, 512MiB, 2g, 1000.
func ParseBytes(s string) (uint64, error) {
	digits := strings.TrimRight(s, "kKmMgGtTiIbB")
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s[len(digits):]), "b"), "i")
	shift, ok := map[string]float64{"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || n < 0 || math.IsNaN(n) || n*shift >= 1<<63 {
		return 0, fmt.Errorf("%q is not a number of bytes: write a number with K, M, G or T, such as 512M", s)
	}
	return uint64(n * shift), nil
}
