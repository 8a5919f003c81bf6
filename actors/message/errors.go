package message

import (
	"github.com/b6f6fdd7/troupe/protocol"
)

// ProcessOf is the id of the process that a request is about.
func ProcessOf(params any) string {
	switch p := params.(type) {
	case protocol.ProcessStartParams:
		return p.ProcessID
	case protocol.ProcessReadParams:
		return p.ProcessID
	case protocol.ProcessWriteParams:
		return p.ProcessID
	case protocol.ProcessCloseStdinParams:
		return p.ProcessID
	case protocol.ProcessResizeParams:
		return p.ProcessID
	case protocol.ProcessSignalParams:
		return p.ProcessID
	case protocol.ProcessTerminateParams:
		return p.ProcessID
	case protocol.ProcessWaitParams:
		return p.ProcessID
	case protocol.ProcessInfoParams:
		return p.ProcessID
	case protocol.ProcessRestartParams:
		return p.ProcessID
	case protocol.ProcessSetRestartParams:
		return p.ProcessID
	}
	return ""
}
