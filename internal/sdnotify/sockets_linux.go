package sdnotify

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstSocket is the descriptor of the first passed socket (SD_LISTEN_FDS_START).
const firstSocket = 3

// Socket returns the listening socket that the service manager has passed to one of the processes pids, whose descriptors this process has
// inherited, as sd_listen_fds(3) does. Nil: the manager has passed none. Socket removes the variables of the manager from the environment, because the socket is not
// for programs.
func Socket(pids ...int) (*os.File, error) {
	count, of, name := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDNAMES")
	for _, variable := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		os.Unsetenv(variable)
	}
	if count == "" || !slices.ContainsFunc(pids, func(pid int) bool { return of == strconv.Itoa(pid) }) {
		return nil, nil
	}
	switch n, err := strconv.Atoi(count); {
	case err != nil || n < 0:
		return nil, fmt.Errorf("LISTEN_FDS=%s of the service manager is no number of sockets", count)
	case n == 0:
		return nil, nil
	case n > 1:
		return nil, fmt.Errorf("the service manager has passed %d sockets (%s): a server listens at one address, so give the socket unit one ListenStream=", n, name)
	}
	if listens, err := unix.GetsockoptInt(firstSocket, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
		return nil, fmt.Errorf("the service manager has passed something else than a listening socket: use ListenStream= and Accept=no in the socket unit")
	}
	unix.CloseOnExec(firstSocket) // the holder has the socket for the next server
	return os.NewFile(firstSocket, "socket of the service manager"), nil
}
