package holder

import (
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/internal/sdnotify"
)

// The service manager that has started the holder hears that the service is ready when the first server serves, of the begin and the end of each upgrade
// (a reload), and of the end. With each of them, and when a server dies, comes a text for people: `systemctl status` shows the last one.

// tell tells the service manager some lines, and the text.
func (h *holder) tell(lines []string, format string, args ...any) {
	if err := h.Manager.Tell(append(lines, sdnotify.Status+fmt.Sprintf(format, args...))...); err != nil {
		h.Log("%v", err)
	}
}

// report is tell, and logs the text.
func (h *holder) report(lines []string, format string, args ...any) {
	h.Log(format, args...)
	h.tell(lines, format, args...)
}

// serves tells that the present server serves. A reload whose trial still runs goes on.
func (h *holder) serves() {
	var lines []string
	if h.upgrade.pid == 0 {
		lines = []string{sdnotify.Ready}
	}
	if h.last == "" {
		h.tell(lines, "process %d serves", h.pid)
		return
	}
	h.tell(lines, "process %d serves since %s; the server before: %s", h.pid, time.Now().Format(time.DateTime), h.last)
}

// stopping tells once that the service ends.
func (h *holder) stopping() {
	if !h.ends() {
		h.tell([]string{sdnotify.Stopping}, "ends")
	}
}

// live gives a sign of life if one is due. The sign says nothing about the server: the holder itself looks after the server.
func (h *holder) live(now time.Time) {
	if every := h.Manager.Every(); every > 0 && !now.Before(h.sign) {
		h.sign = now.Add(every)
		h.Manager.Tell(sdnotify.Alive) // a lost one is followed by others
	}
}
