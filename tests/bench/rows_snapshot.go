package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// snapshotRows compare a command of a login shell with and without shellSnapshot. "Raw" is the same
// server without shellSnapshot.
var snapshotRows = []row{{
	name: "snapshot",
	lines: []line{
		{what: "a command from the state of a bash without startup files, p50", unit: "ms", raw: []string{"the files run"}},
		{what: "the same, profile of 300 functions", unit: "ms", raw: []string{"the files run"}},
		{what: "the same, profile that also waits for 100 ms", unit: "ms", raw: []string{"the files run"}},
	},
	measure: func(b *bench) (all []reading, err error) {
		var functions strings.Builder
		for i := range 300 {
			fmt.Fprintf(&functions, "helper_%d() { local a=\"$1\"; case $a in x*) printf '%%s\\n' \"${a#x}\" ;; *) return 1 ;; esac; }\n", i)
		}
		for _, profile := range []string{"", functions.String(), functions.String() + "sleep 0.1\n"} {
			ours, err := b.loginShells(profile, true)
			if err != nil {
				return nil, err
			}
			raw, err := b.loginShells(profile, false)
			if err != nil {
				return nil, err
			}
			all = append(all, reading{ours.percentile(0.5), []float64{raw.percentile(0.5)}})
		}
		return all, nil
	},
}}

// loginShells times commands of bash, one after the other, from start to closed. The first command, with
// the capture, does not count.
func (b *bench) loginShells(profile string, snapshot bool) (each times, err error) {
	home, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	if err := os.WriteFile(filepath.Join(home, ".bash_profile"), []byte(profile), 0o600); err != nil {
		return nil, err
	}
	c, err := b.session(subJSON)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for i := range b.n(50, 3) {
		id := fmt.Sprint(i)
		p := startParams(id, false, "/bin/bash", "-lc", "true")
		p.Env["HOME"] = home
		if snapshot {
			p.ShellSnapshot = &protocol.ShellSnapshot{ScopeID: "s", Shell: protocol.Shell{Name: "bash", Path: "/bin/bash"}}
		}
		begun := time.Now()
		if _, err := c.Request(protocol.MethodProcessStart, p); err != nil {
			return nil, err
		}
		if err := c.closed(id); err != nil {
			return nil, err
		}
		if i > 0 {
			each = append(each, time.Since(begun))
		}
	}
	return each, nil
}
