package kernel

import (
	"bytes"
	"strconv"
)

// cpuTimes returns the total and the idle CPU time of this machine since its boot, in hundredths of a second (proc_stat(5)); ok is false if nobody knows.
func cpuTimes() (all, idle uint64, ok bool) {
	text, err := ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0, false
	}
	// user nice system idle iowait irq softirq steal; guest times are part of user and nice. Stolen time is not idle: another virtual
	// machine had the CPU.
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return 0, 0, false
		}
		all += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return all, idle, true
}
