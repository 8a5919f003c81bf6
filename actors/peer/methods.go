package peer

import (
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Methods is the table of all methods that clients may send.
var Methods = connection.NewTable(appServer{},
	connection.Section{Family: "filesystem", About: "file", Repeat: connection.RepeatsNotAtAll, Record: connection.ByHandler, Methods: []connection.Method{
		{Name: protocol.MethodFsWatch, Observer: connection.Reads},
		{Name: protocol.MethodFsUnwatch, Observer: connection.Reads},
	}},
	connection.Section{Family: "environment config", About: "server", Methods: []connection.Method{
		{Name: protocol.MethodEnvironmentConfigRead, Handler: connection.ReadsFiles(checkConfig, readConfig).Gives(protocol.EnvironmentConfigReadResult{}), Observer: connection.Reads},
	}},
	connection.Section{Family: "capability discovery", About: "server", Methods: []connection.Method{
		{Name: protocol.MethodCapabilityRootsDiscover, Handler: connection.ReadsFiles(checkRoots, discoverRoots).Gives(protocol.CapabilityRootsDiscoverResult{}), Observer: connection.Reads},
		{Name: protocol.MethodCapabilitiesDiscover, Handler: connection.ReadsFiles(checkInstalled, discoverInstalled).Gives(protocol.CapabilitiesDiscoverResult{}), Observer: connection.Reads},
	}},
	connection.Section{Family: connection.ExecFamily, About: "program", Repeat: connection.RepeatsNotAtAll, Record: connection.ByHandler, OfDialect: true, Methods: []connection.Method{
		{Name: protocol.MethodProcessSpawn, Handler: ofProgram[protocol.ProcessSpawnParams]().Gives(protocol.Empty{}), Needs: experimental},
		{Name: protocol.MethodProcessWriteStdin, Handler: ofProgram[protocol.ProcessWriteStdinParams]().Gives(protocol.Empty{}), Needs: experimental, Record: connection.Unrecorded},
		{Name: protocol.MethodProcessResizePty, Handler: ofProgram[protocol.ProcessResizePtyParams]().Gives(protocol.Empty{}), Needs: experimental, Record: connection.Unrecorded},
		{Name: protocol.MethodProcessKill, Handler: ofProgram[protocol.ProcessKillParams]().Gives(protocol.Empty{}), Needs: experimental},
		{Name: protocol.MethodCommandExec, Handler: ofEither[protocol.FirstExecParams, protocol.CommandExecParams]("argv").Gives(protocol.CommandExecResult{}, protocol.FirstExecResult{})},
		{Name: protocol.MethodCommandExecWrite, Handler: ofEither[protocol.FirstExecWriteParams, protocol.CommandExecWriteParams]("sessionId").Gives(protocol.Empty{}, protocol.FirstExecWriteResult{}), Record: connection.Unrecorded},
		{Name: protocol.MethodCommandExecResize, Handler: ofProgram[protocol.CommandExecResizeParams]().Gives(protocol.Empty{}), Record: connection.Unrecorded},
		{Name: protocol.MethodCommandExecTerminate, Handler: ofEither[protocol.FirstExecTerminateParams, protocol.CommandExecTerminateParams]("sessionId").Gives(protocol.Empty{}, protocol.FirstExecTerminateResult{})},
	}},
)

// experimental is a capability of clients of the app-server.
const experimental = "experimentalApi"

// state is what the rows of this package keep for a connection.
type state struct {
	experimental bool // the client has the capability
	programs     programs
	watches      watches
}

func stateOf(r connection.Request) *state { return connection.Kept[state](r) }
