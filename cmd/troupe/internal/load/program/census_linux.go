package program

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
)

// maxEnviron bounds the bytes read of an environment. The environments of the programs of a load run are short.
const maxEnviron = 64 << 10

// programsOf returns the pids of all programs that have the run in their environment, except this one.
func programsOf(run string) (pids []int, err error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	variable, buf := []byte(Variable+"="+run), make([]byte, maxEnviron)
	for {
		names, err := proc.Readdirnames(1000)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err == nil && pid != os.Getpid() && slices.ContainsFunc(environ(name, buf), func(v []byte) bool { return bytes.Equal(v, variable) }) {
				pids = append(pids, pid)
			}
		}
		if err == io.EOF {
			return pids, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// environ returns the environment of a program, in buf. The result is empty for programs of other users, and for programs that have ended.
func environ(pid string, buf []byte) [][]byte {
	f, err := os.Open("/proc/" + pid + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	n, _ := io.ReadFull(f, buf)
	return bytes.Split(buf[:n], []byte{0})
}
