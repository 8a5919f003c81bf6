package show

import (
	"fmt"
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

// two writes s in a large unit, and below 10 of them also in a small unit.
func two(s, large, small int64, l, sm string) string {
	n, rest := s/large, s%large/small
	if n >= 10 || rest == 0 {
		return fmt.Sprintf("%d%s", n, l)
	}
	return fmt.Sprintf("%d%s%d%s", n, l, rest, sm)
}
