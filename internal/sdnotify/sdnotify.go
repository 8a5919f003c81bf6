// Package sdnotify tells the service manager how a service is, as sd_notify(3) does, and takes the socket that the manager has opened for the service.
package sdnotify

// Lines of a message.
const (
	Ready    = "READY=1"    // the service serves, or has ended a reload
	Stopping = "STOPPING=1" // the service ends
	Alive    = "WATCHDOG=1" // a sign of life
	Status   = "STATUS="    // and a text for people
)
