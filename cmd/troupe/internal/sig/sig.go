// Package sig reads names of signals written by people.
package sig

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Parse returns the signal with a name such as "HUP", "SIGHUP" or "hangup", in any case, or with a number of this system.
func Parse(text string) (protocol.Signal, error) {
	name := strings.TrimSpace(text)
	if number, err := strconv.Atoi(name); err == nil {
		name = protocol.SignalName(syscall.Signal(number))
	}
	if s, ok := protocol.ParseSignal(name); ok {
		return s, nil
	}
	return "", fmt.Errorf("there is no signal %q to send: choose one of %s", text, strings.Join(Names(), ", "))
}

// Names returns the names of all signals, such as "SIGHUP".
func Names() []string {
	var names []string
	for _, s := range protocol.Signals() {
		names = append(names, s.Posix())
	}
	return names
}
