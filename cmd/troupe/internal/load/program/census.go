//go:build unix

package program

import (
	"bytes"
	"errors"
	"io"
	"strconv"
)

// census prints the pids of the programs of a load run, one a line, and "end COUNT", without its own.
func census(w io.Writer, run string) error {
	pids, err := programsOf(run)
	if err != nil {
		return err
	}
	var p []byte
	for _, pid := range pids {
		p = append(strconv.AppendInt(p, int64(pid), 10), '\n')
	}
	p = append(strconv.AppendInt(append(p, "end "...), int64(len(pids)), 10), '\n')
	_, err = w.Write(p)
	return err
}

// ParseCensus reads all the output of a census.
func ParseCensus(p []byte) (pids []int, err error) {
	text, ok := bytes.CutSuffix(p, []byte("\n"))
	if !ok {
		return nil, errors.New("the output of the census has no end")
	}
	lines := bytes.Split(text, []byte("\n"))
	last := len(lines) - 1
	if n, ok := bytes.CutPrefix(lines[last], []byte("end ")); !ok || string(n) != strconv.Itoa(last) {
		return nil, errors.New("the census ends with " + strconv.Quote(string(lines[last])) + " after " + strconv.Itoa(last) + " pids")
	}
	for _, line := range lines[:last] {
		pid, err := strconv.Atoi(string(line))
		if err != nil {
			return nil, errors.New("the census has the line " + strconv.Quote(string(line)) + ", which is not a pid")
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
