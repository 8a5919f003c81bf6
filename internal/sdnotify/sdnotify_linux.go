package sdnotify

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sendTime bounds how long a message waits for room at a busy manager.
const sendTime = time.Second

// Manager is the service manager of this process. A nil Manager hears nothing: the process has none. Any goroutine may call its methods.
type Manager struct {
	socket int
	to     unix.SockaddrUnix
	every  time.Duration // between signs of life; 0: none are expected
	env    []string      // what Take has taken
}

// Take returns the manager of this process; nil: there is none. Take removes the variables of the manager from the environment, because a program with these
// variables would speak for the service.
func Take() (*Manager, error) {
	values := make(map[string]string)
	var env []string
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if values[name] = os.Getenv(name); values[name] != "" {
			env = append(env, name+"="+values[name])
		}
		os.Unsetenv(name)
	}
	address := values["NOTIFY_SOCKET"]
	switch {
	case address == "":
		return nil, nil
	case address[0] != '/' && address[0] != '@':
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s is neither a path nor an abstract address: the service manager hears nothing of this service", address)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket for the service manager: %w", err)
	}
	wait := unix.NsecToTimeval(sendTime.Nanoseconds())
	unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait) // fails for bad arguments only
	m := &Manager{socket: socket, to: unix.SockaddrUnix{Name: address}, env: env}
	if pid := values["WATCHDOG_PID"]; pid == "" || pid == strconv.Itoa(os.Getpid()) {
		limit, _ := strconv.ParseInt(values["WATCHDOG_USEC"], 10, 64)
		m.every = time.Duration(limit) * time.Microsecond / 2 // as sd_watchdog_enabled(3) wants it
	}
	return m, nil
}

// Every is the time between two signs of life (Alive); 0: the manager expects none.
func (m *Manager) Every() time.Duration {
	if m == nil {
		return 0
	}
	return m.every
}

// Environ returns the variables that Take has removed, for another program of this process.
func (m *Manager) Environ() []string {
	if m == nil {
		return nil
	}
	return m.env
}

// Tell sends lines such as Ready in one message. Tell waits for a second at most, and with Alive not at all: the next sign follows soon.
func (m *Manager) Tell(lines ...string) error {
	if m == nil {
		return nil
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\n", " ")
	}
	text, flags := strings.Join(lines, "\n"), unix.MSG_NOSIGNAL
	if text == Alive {
		flags |= unix.MSG_DONTWAIT
	}
	if err := unix.Sendto(m.socket, []byte(text), flags, &m.to); err != nil {
		return fmt.Errorf("tell the service manager %q: %w", lines, err)
	}
	return nil
}

// Reloading returns the lines that begin a reload. Ready ends it.
func Reloading() []string {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for no known clock
	return []string{"RELOADING=1", "MONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)}
}
