package connection

import (
	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// methods are the rows of the table in this package. Others add theirs: see Table.
var methods = []Section{
	{Family: ExecFamily, About: "connection", Methods: []Method{
		{Name: protocol.MethodInitialize, Handler: handles(greeting.Params, (*connection).initialize).Takes(protocol.InitializeParams{}).Gives(protocol.InitializeResult{}), Early: true, Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodInitialized, Handler: handles(ignored, (*connection).initialized), Notification: true, Observer: Reads, Guests: anyGuest},
	}},
	{Family: "environment info", About: "server", Methods: []Method{
		{Name: protocol.MethodEnvironmentInfo, Handler: handles(Params, (*connection).environmentInfo).Gives(protocol.EnvironmentInfo{}), Observer: Reads},
		{Name: protocol.MethodEnvironmentStatus, Handler: handles(ignored, (*connection).environmentStatus).Gives(protocol.EnvironmentStatusResult{}), Observer: Reads, Guests: anyGuest},
	}},
	{Family: ExecFamily, About: "server", Methods: []Method{
		{Name: protocol.MethodServerInfo, Handler: handles(ignored, (*connection).tellServer).Gives(protocol.ServerInfoResult{}, protocol.AboutServer{}), Observer: Reads},
		{Name: protocol.MethodServerEvents, Handler: handles(optional, (*connection).readEvents).Gives(protocol.ServerEventsResult{}), Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodServerWatch, Handler: handles(optional, (*connection).watchServer).Gives(protocol.Empty{}), Observer: Reads, Guests: anyGuest},
	}},
	{Family: ExecFamily, About: "cluster", Methods: []Method{
		{Name: protocol.MethodClusterNodes, Handler: handles(ignored, (*connection).listNodes).Gives(protocol.ClusterNodesResult{}), Observer: Reads},
		{Name: protocol.MethodClusterDrain, Handler: handles(Params, (*connection).drainNode).Gives(protocol.Empty{}), Server: true, Repeat: RepeatsNotAtAll, Record: ByHandler},
	}},
	{Family: ExecFamily, About: "session", Methods: []Method{
		{Name: protocol.MethodSessionInfo, Handler: ofSession(ignored[message.SessionInfoRequest]).Gives(protocol.SessionInfoResult{}), Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodSessionList, Handler: listing[protocol.SessionListParams]().Gives(protocol.SessionListResult{}, protocol.SessionProcessesResult{}, protocol.SessionDetailsResult{}), Observer: Reads, Guests: anyGuest, Server: true},
		{Name: protocol.MethodSessionClose, Handler: handles(optional[protocol.SessionCloseParams], (*connection).closeSession).Gives(protocol.Empty{}), Repeat: repeatBySession, Server: true},
		{Name: protocol.MethodSessionUpdate, Handler: ofSession(Params[protocol.SessionUpdateParams]).Gives(protocol.Empty{}), Server: true},
		{Name: protocol.MethodSessionAck, Handler: handles(Params, (*connection).acknowledge), Notification: true, Record: Unrecorded},
		{Name: protocol.MethodSessionShare, Handler: ofSession(Params[protocol.SessionShareParams]).Gives(protocol.SessionShareResult{}), Repeat: repeatsAnew, Server: true, Record: ByHandler},
		{Name: protocol.MethodSessionShares, Handler: ofSession(ignored[message.SharesRequest]).Gives(protocol.SessionSharesResult{}), Observer: ownerReads, Server: true},
		{Name: protocol.MethodSessionUnshare, Handler: ofSession(Params[protocol.SessionUnshareParams]).Gives(protocol.SessionUnshareResult{}), Repeat: repeatByShare, Server: true, Record: ByHandler},
		{Name: protocol.MethodProcessList, Handler: listing[protocol.ProcessListParams]().Gives(protocol.ProcessListResult{}), Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodGroupList, Handler: ofSession(ignored[message.GroupListRequest]).Gives(protocol.GroupListResult{}), Observer: Reads, Guests: anyGuest},
	}},

	{Family: ExecFamily, About: "process", Methods: []Method{
		{Name: protocol.MethodProcessStart, Handler: handles(startParams, (*connection).startProcess).Gives(protocol.ProcessStartResult{}), Server: true, Record: ByHandler},
		{Name: protocol.MethodProcessRead, Handler: handles(Params, (*connection).readProcess).Gives(protocol.ProcessReadResult{}), Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodProcessSubscribe, Handler: handles(Params, (*connection).subscribeProcess).Gives(protocol.ProcessInfo{}), Observer: toWatch, Guests: anyGuest},
		// If there is no such process, these three answer as the peer does, and the others fail.
		{Name: protocol.MethodProcessWrite, Handler: ofProcess[protocol.ProcessWriteParams](protocol.ProcessWriteResult{Status: protocol.WriteUnknownProcess}).Gives(protocol.ProcessWriteResult{}), Guests: typists, Record: Unrecorded},
		{Name: protocol.MethodProcessSignal, Handler: ofProcess[protocol.ProcessSignalParams](protocol.Empty{}).Gives(protocol.Empty{})},
		{Name: protocol.MethodProcessTerminate, Handler: ofProcess[protocol.ProcessTerminateParams](protocol.ProcessTerminateResult{Running: false}).Gives(protocol.ProcessTerminateResult{})},
		{Name: protocol.MethodProcessCloseStdin, Handler: ofProcess[protocol.ProcessCloseStdinParams](nil).Gives(protocol.Empty{})},
		{Name: protocol.MethodProcessResize, Handler: ofProcess[protocol.ProcessResizeParams](nil).Gives(protocol.Empty{}), Guests: typists, Record: Unrecorded},
		{Name: protocol.MethodProcessWait, Handler: ofProcess[protocol.ProcessWaitParams](nil).Gives(protocol.ProcessWaitResult{}), Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodProcessRestart, Handler: ofProcess[protocol.ProcessRestartParams](nil).Gives(protocol.Empty{})},
		{Name: protocol.MethodProcessSetRestart, Handler: ofProcess[protocol.ProcessSetRestartParams](nil).Gives(protocol.Empty{})},
		{Name: protocol.MethodProcessInfo, Handler: ofProcess[protocol.ProcessInfoParams](nil).Gives(protocol.ProcessInfoResult{}), Observer: Reads, Guests: anyGuest},
		{Name: protocol.MethodProcessScreen, Handler: handles(Params, (*connection).readScreen).Gives(protocol.ProcessScreenResult{}), Observer: Reads, Guests: anyGuest},
	}},
	{Family: ExecFamily, About: "group", Methods: []Method{
		{Name: protocol.MethodGroupStart, Handler: handles(groupParams, (*connection).startGroup).Gives(protocol.GroupStartResult{}), Server: true, Record: ByHandler},
		{Name: protocol.MethodGroupStop, Handler: ofSession(Params[protocol.GroupStopParams]).Gives(protocol.Empty{})},
	}},

	{Family: "filesystem", Prefix: "fs", About: "file", Repeat: RepeatsNotAtAll, Record: ByHandler, Methods: []Method{
		{Name: protocol.MethodFsReadFile, Handler: ofFiles(Params, readFile).Gives(protocol.FsReadFileResult{}), Observer: Reads},
		{Name: protocol.MethodFsOpen, Handler: ofFiles(Params, openFile).Gives(protocol.FsOpenResult{}), Observer: toRead},
		{Name: protocol.MethodFsReadBlock, Handler: ofHandles(Params, readBlock).Gives(protocol.FsReadBlockResult{}), Observer: Reads},
		{Name: protocol.MethodFsWriteBlock, Handler: ofHandles(Params, writeBlock).Gives(protocol.Empty{}), Observer: byHandle, Record: Unrecorded},
		{Name: protocol.MethodFsClose, Handler: ofHandles(Params, closeFile).Gives(protocol.Empty{}), Observer: Reads},
		{Name: protocol.MethodFsWriteFile, Handler: ofFiles(WriteFileParams, writeFile).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsCreateDirectory, Handler: ofFiles(Params, createDirectory).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsGetMetadata, Handler: ofFiles(Params, getMetadata).Gives(protocol.FsGetMetadataResult{}), Observer: Reads},
		{Name: protocol.MethodFsCanonicalize, Handler: ofFiles(Params, canonicalize).Gives(protocol.FsCanonicalizeResult{}), Observer: Reads},
		{Name: protocol.MethodFsReadDirectory, Handler: ofFiles(Params, readDirectory).Gives(protocol.FsReadDirectoryResult{}), Observer: Reads},
		{Name: protocol.MethodFsWalk, Handler: ofFiles(Params, walk).Gives(protocol.FsWalkResult{}), Observer: Reads},
		{Name: protocol.MethodFsRemove, Handler: ofFiles(Params, remove).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsCopy, Handler: ofFiles(Params, copyFile).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsStat, Handler: ofFiles(Params, statEntry).Gives(protocol.FsEntry{}), Observer: Reads},
		{Name: protocol.MethodFsList, Handler: ofFiles(Params, list).Gives(protocol.FsListResult{}), Observer: Reads},
		{Name: protocol.MethodFsRename, Handler: ofFiles(Params, rename).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsSymlink, Handler: ofFiles(Params, symlink).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsSetMetadata, Handler: ofFiles(Params, setMetadata).Gives(protocol.Empty{})},
		{Name: protocol.MethodFsWatchMissing, Handler: ofHandles(Params, watchMissing).Gives(protocol.FsWatchMissingResult{}), Observer: Reads},
	}},
	{Family: "http", Prefix: "http", About: "connection", Repeat: RepeatsNotAtAll, Record: ByHandler, Methods: []Method{
		{Name: protocol.MethodHTTPRequest, Handler: handles(Params, (*connection).httpRequest).Gives(protocol.HTTPRequestResult{})},
	}},
}
