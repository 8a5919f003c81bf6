package jail

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// failure returns the Failure of a stage. Help is advice for an operator; "" is none.
func failure(stage string, err error, help string) *Failure {
	f := &Failure{Stage: stage, Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = int(errno)
	}
	if help != "" {
		f.Text = fmt.Sprintf("%s (%s)", f.Text, help)
	}
	return f
}

// failed returns the Failure of a stage. A nil err is no failure.
func failed(stage string, err error) error {
	if err == nil {
		return nil
	}
	return failure(stage, err, "")
}

// failureOf returns err as a Failure.
func failureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return failure("sandbox", err, "")
}

// clip shortens the texts of f, so that the Report of f has at most MaxReport bytes of JSON: six for a byte of a text.
func (f *Failure) clip() *Failure {
	const stage, text = MaxReport / 6 / 3, MaxReport / 6 / 2
	return &Failure{Stage: cut(f.Stage, stage), Errno: f.Errno, Text: cut(f.Text, text)}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// unmounted explains err, which happened at a stage of enter.
func unmounted(stage string, err error) *Failure {
	f := failure(stage, err, "")
	if f.Errno == int(unix.ENOSYS) {
		f.Text += ": a sandbox needs Linux 5.12 or later, and a container that permits the calls open_tree, move_mount and mount_setattr"
	}
	return f
}

// unmountedHelp is unmounted with the advice added if err is one of errnos.
func unmountedHelp(stage string, err error, advice string, errnos ...unix.Errno) *Failure {
	f := unmounted(stage, err)
	for _, errno := range errnos {
		if f.Errno == int(errno) {
			f.Text += ": " + advice
		}
	}
	return f
}
