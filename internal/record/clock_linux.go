package record

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of the clock behind the monotonic readings of package time, CLOCK_MONOTONIC of clock_gettime(2). All processes since
// the start of the machine share this clock. CLOCK_BOOTTIME would also count the time in which the machine sleeps, and a reading of package
// time does not: then the same time.Time would have other bytes after each sleep.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // bad arguments only
	}
	return time.Duration(now.Nano())
}
