# Made by "go run ./clients/generate" from docs/protocol/schema.json. Do not edit.
"""The types of the wire, as docs/PROTOCOL.md describes it.

Each object of the wire is a TypedDict. Members that are bytes are bytes here: the client translates base64.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Mapping, Optional, Tuple, TypedDict, Union, overload

#: Access says what the guests of a share may do.
Access = Literal["read", "type"]

#: Detail says what session/list tells of processes. Absent means nothing.
Detail = Literal["processes", "info"]

#: ErrorKind says which error an Error is, for programs: a client branches on the kind, never on a text. Section 22.1 of
#: PROTOCOL.md has the list. A client treats a kind that it does not know like the code of the error.
ErrorKind = Union[Literal[
    "message",
    "params",
    "method",
    "off",
    "unsupported",
    "order",
    "role",
    "unauthorized",
    "policy",
    "limit",
    "unknownSession",
    "unknownProcess",
    "unknownGroup",
    "unknownHandle",
    "exists",
    "attached",
    "evicted",
    "ended",
    "noTTY",
    "stdinClosed",
    "noRestart",
    "held",
    "survivors",
    "noProgram",
    "notExecutable",
    "noDirectory",
    "sandbox",
    "user",
    "notFound",
    "permission",
    "notDirectory",
    "notFile",
    "notEmpty",
    "tooLarge",
    "noSpace",
    "readOnly",
    "link",
    "hangs",
    "http",
    "busy",
    "system",
    "internal",
], str]

#: FsKind says what a file is.
FsKind = Union[Literal["file", "directory", "symlink", "other"], str]

#: FsMode says what a file is opened for.
FsMode = Union[Literal["read", "replace", "update"], str]

#: FsPaths is a list of paths, or a single path as a string. Clients of exec-server were only seen to send null.
FsPaths = Union[str, List[str]]

#: GroupStrategy says which other processes are run again with an ended process, as in OTP.
GroupStrategy = Literal["one_for_one", "one_for_all", "rest_for_one", "independent"]

#: HTTPRedirectPolicy says how to handle a redirect.
HTTPRedirectPolicy = Union[Literal["follow", "stop"], str]

#: `onFull` says how to go on when the kept output has reached its limit.
OnFull = Literal["block", "evict", "spool"]

#: ReadDetail says which additional members an answer to process/read has.
ReadDetail = Literal["times", "events"]

#: ReadEventKind says what happened. The names are those of the notifications.
ReadEventKind = Union[Literal["exited", "restarted", "ready", "evicted", "closed"], str]

#: Role says what a connection may do in its session.
Role = Literal["owner", "observer", "typist", "controller"]

#: SandboxAccess is what an entry permits. Of several entries with the same path the order is: `deny`, `write`, `read`.
SandboxAccess = Literal["read", "write", "deny"]

#: ServerEventKind says what happened. A later server may have other kinds.
ServerEventKind = Union[Literal[
    "opened",
    "attached",
    "detached",
    "closing",
    "gone",
    "started",
    "ready",
    "exited",
    "restarted",
    "evicted",
    "closed",
    "group",
    "replaced",
], str]

#: Signal is a signal to a process group, by name, because numbers differ between systems. ParseSignal says which names
#: a signal has. (exec-server knows interrupt only, exec-server wire §6; the others are ours.)
Signal = Union[Literal[
    "interrupt",
    "terminate",
    "kill",
    "hangup",
    "quit",
    "usr1",
    "usr2",
    "stop",
    "continue",
    "winch",
    "pipe",
], str]

#: State is the state of a process.
State = Literal["starting", "running", "restarting", "waiting", "draining", "exited", "closed"]

#: Stream says where a process has written output to.
Stream = Literal["stdout", "stderr", "pty"]

#: UsageOf says which processes a Usage covers.
UsageOf = Union[Literal["tree", "program"], str]

#: `waitFor` is the thing a process waits for.
WaitFor = Union[Literal[
    "start",
    "group",
    "backoff",
    "owner",
    "budget",
    "rate",
    "continue",
    "end",
    "ready",
    "itself",
    "descendants",
], str]

#: WriteStatus is the outcome of a write. Another exec-server may send other values.
WriteStatus = Union[Literal["accepted", "unknownProcess", "stdinClosed"], str]


class _AboutServer(TypedDict):
    server: ServerInfo

    protocolVersion: str

    limits: Limits

    #: as in ProcessInfo
    containment: str

    #: since the Unix epoch
    startedAtMs: int


class AboutServer(_AboutServer, total=False):
    """AboutServer describes a server. It is the whole answer to server/info for a client that is not an operator, if
    the server asks for credentials."""

    #: `sandbox` says whether the server can confine programs; absent: it could not find out yet.
    sandbox: SandboxInfo

    #: `holder` says whether programs outlive the server; absent: an older server, and they do not.
    holder: HolderInfo


class AppCapabilities(TypedDict, total=False):
    """AppCapabilities are what a client of the app-server wire asks for."""

    #: process/spawn and its family
    experimentalApi: Optional[bool]

    #: `optOutNotificationMethods` are notifications that the server shall not send. Unknown methods are ignored.
    optOutNotificationMethods: Optional[List[str]]


class Backoff(TypedDict, total=False):
    """Backoff is how long to wait before a restart. Each member that is absent has its own default."""

    #: the wait before the first restart; absent: 100; 0: at once
    initialMs: Optional[int]

    #: the longest wait; absent: 30,000, or `initialMs` if that is more; 0: no cap
    maxMs: Optional[int]

    #: the wait grows by `factor` with each restart that counts in the period; below 1: 2
    factor: Optional[float]

    #: each wait is reduced by a random part up to `jitter`, 0 to 1; absent: 0.2
    jitter: Optional[float]


class Capabilities(TypedDict, total=False):
    """Capabilities are the extensions of exec-server's wire a client asks for."""

    #: send `process/gap`
    gap: Optional[bool]

    #: send `process/restarted`
    restarted: Optional[bool]

    #: send `process/ready`
    ready: Optional[bool]

    #: send `group/changed`
    groups: Optional[bool]

    #: `ack` says the client acknowledges with session/ack only. Without `ack`, Pongs acknowledge.
    ack: Optional[bool]

    #: `onlyNamed` says the client wants notifications only of the processes in `resumeFrom` and of those that it starts
    #: itself. The owner gets all, with or without `onlyNamed`.
    onlyNamed: Optional[bool]

    #: send `session/changed`
    changes: Optional[bool]

    #: `times` says OutputNotification has `atMs`.
    times: Optional[bool]


class _CapabilitiesDiscoverParams(TypedDict):
    #: not looked at
    cwd: str


class CapabilitiesDiscoverParams(_CapabilitiesDiscoverParams, total=False):
    """CapabilitiesDiscoverParams asks for the plugins and skills that are installed on the server's machine."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class CapabilitiesDiscoverResult(TypedDict):
    """CapabilitiesDiscoverResult is the answer to capabilities/discoverV2."""

    #: by `id`
    plugins: List[InstalledPlugin]

    #: outside of plugins; the first of a name counts
    skills: List[InstalledSkill]

    #: what was left out, without paths
    warnings: List[str]


class _CapabilityRoot(TypedDict):
    #: the client's name for the root
    id: str

    path: str


class CapabilityRoot(_CapabilityRoot, total=False):
    """CapabilityRoot is a directory to look in."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class CapabilityRootDiscovery(TypedDict):
    """CapabilityRootDiscovery has the files of plugins and skills below a root."""

    #: as in the params
    id: str

    #: as in the params
    path: str

    plugin: Optional[PluginFiles]

    #: by path
    skills: List[SkillFiles]

    #: of the root, or of the nearest plugin around it, and one of each plugin below
    namespaceManifests: List[DiscoveredFile]

    #: files that were left out, with the reason
    warnings: List[str]

    #: why nothing was found; null: the root was read
    error: Optional[str]


class CapabilityRootsDiscoverParams(TypedDict):
    """CapabilityRootsDiscoverParams names directories in which to look for plugins and skills."""

    #: at most 128
    roots: List[CapabilityRoot]


class CapabilityRootsDiscoverResult(TypedDict):
    """CapabilityRootsDiscoverResult has an entry for each root, in the order of the params."""

    roots: List[CapabilityRootDiscovery]


class Chunk(TypedDict):
    """`chunk` is a piece of output. Its bytes never change once sent."""

    seq: int

    stream: Stream

    #: base64 in JSON
    chunk: bytes


class _ClientInfo(TypedDict):
    name: str

    version: str


class ClientInfo(_ClientInfo, total=False):
    """`clientInfo` identifies the client, in the form of the app-server wire."""

    title: Optional[str]


class _ClientInfoParams(TypedDict):
    clientInfo: ClientInfo


class ClientInfoParams(_ClientInfoParams, total=False):
    """ClientInfoParams are the params of initialize in the app-server wire."""

    capabilities: Optional[AppCapabilities]

    #: as InitializeParams.`token`; ours
    token: Optional[str]


class ClosedNotification(TypedDict):
    """ClosedNotification says the process will send nothing more."""

    processId: str

    seq: int


class _ClusterDrainParams(TypedDict):
    #: its name or its id
    node: str


class ClusterDrainParams(_ClusterDrainParams, total=False):
    """ClusterDrainParams have a node open no session from now on."""

    #: `forMs` is how long its sessions may go on, in milliseconds, at most a year. The node ends with the last one.
    forMs: Optional[int]

    #: `cancel` takes an earlier drain back. `forMs` does not count then.
    cancel: Optional[bool]


class _ClusterNode(TypedDict):
    #: `id` is another one whenever the programs of the node have ended with it. The ids of the sessions of a node are
    #: its `id`, a dot and 128 random bits.
    id: str

    name: str

    #: HOST:PORT, where other nodes reach it
    address: str

    version: str

    sessions: int

    maxSessions: int

    #: that run
    processes: int

    #: the busy part of its processors, 0 to 1
    cpu: float

    memoryBytes: int

    maxMemoryBytes: int

    #: descriptors of the server
    files: int

    maxFiles: int


class ClusterNode(_ClusterNode, total=False):
    """ClusterNode is a server of a cluster."""

    #: it is the server that answers
    self: bool

    labels: Dict[str, str]

    #: it opens no session
    draining: bool

    #: `leftAtMs` is when nobody could tell of the node any more, since the Unix epoch. `lost`: it does not answer
    #: either, and its sessions are lost. Nodes that have left are told for an hour.
    leftAtMs: int

    lost: bool


class _ClusterNodesResult(TypedDict):
    #: sorted by `id`
    nodes: List[ClusterNode]


class ClusterNodesResult(_ClusterNodesResult, total=False):
    """ClusterNodesResult has the nodes of the cluster, as the server knows them."""

    #: `problem` says why the server does not know whether other nodes join or leave: it goes on with what it knows.
    #: Absent: it knows.
    problem: str


class CommandExecOutputDeltaNotification(TypedDict):
    """CommandExecOutputDeltaNotification is a piece of output."""

    processId: str

    stream: Stream

    deltaBase64: bytes

    #: no more output of this stream follows
    capReached: bool


class _CommandExecParams(TypedDict):
    command: List[str]


class CommandExecParams(_CommandExecParams, total=False):
    """CommandExecParams runs a command. The answer comes at the end of the command."""

    #: absent: output is not streamed, and no request can name the command
    processId: Optional[str]

    #: relative to the server's; absent: the server's
    cwd: Optional[str]

    #: added to the server's without its secrets; a null removes the variable
    env: Optional[Dict[str, Optional[str]]]

    #: a terminal: implies the next two; all output is stdout
    tty: Optional[bool]

    #: false: stdin is empty
    streamStdin: Optional[bool]

    #: false: output comes at the end
    streamStdoutStderr: Optional[bool]

    #: only with `tty`; absent: 24 rows, 80 columns
    size: Optional[TerminalSize]

    #: of each stream, in bytes; absent: 1 MiB
    outputBytesCap: Optional[int]

    disableOutputCap: Optional[bool]

    #: absent: 10 s
    timeoutMs: Optional[int]

    disableTimeout: Optional[bool]

    #: `sandboxPolicy` or `permissionProfile` confines the command.
    sandboxPolicy: Optional[Union[DangerPolicy, ReadOnlyPolicy, ExternalPolicy, WorkspacePolicy]]

    permissionProfile: Optional[str]

    #: of process/start: refused
    sandbox: None


class CommandExecResizeParams(TypedDict):
    """CommandExecResizeParams sets the size of a PTY."""

    processId: str

    size: TerminalSize


class CommandExecResult(TypedDict):
    """CommandExecResult says how a command has ended. Streamed output is not repeated."""

    #: 124: timed out; 128 + signal
    exitCode: int

    #: up to the cap; bytes other than UTF-8 become U+FFFD
    stdout: str

    stderr: str


class CommandExecTerminateParams(TypedDict):
    """CommandExecTerminateParams kills a command with all its descendants."""

    processId: str


class _CommandExecWriteParams(TypedDict):
    processId: str


class CommandExecWriteParams(_CommandExecWriteParams, total=False):
    """CommandExecWriteParams writes to stdin, then closes stdin, or does either."""

    deltaBase64: Optional[bytes]

    closeStdin: Optional[bool]


class ConfigLayer(TypedDict):
    """ConfigLayer is the selected part of one configuration file."""

    #: for people
    source: str

    #: relative paths in `toml` begin here
    baseDir: str

    #: the selected values, unchanged
    toml: str


class ConfigLayers(TypedDict):
    """ConfigLayers are configuration files. Values of a later layer override those of earlier layers."""

    #: without layers that have nothing of the selected paths
    layers: List[ConfigLayer]

    #: `cloudInsertionIndex` is the index in `layers` at which a client inserts layers from elsewhere.
    cloudInsertionIndex: int


class DangerPolicy(TypedDict):
    """dangerPolicy confines nothing."""

    type: str


class Details(TypedDict, total=False):
    """details is the Data of an Error from a troupe server."""

    kind: ErrorKind

    advice: str

    limit: str

    value: float

    used: float


class DiscoveredFile(TypedDict):
    """DiscoveredFile is a text file with its content."""

    path: str

    contents: str


class Empty(TypedDict):
    """Empty is the result {}. As params, Empty accepts absent params, null, and any object."""


class EnvPolicy(TypedDict):
    """`envPolicy` selects the variables a process inherits from the server's environment. The order is: inherit,
    default excludes, exclude, set, include only. Patterns are globs, ignoring case."""

    #: "all", "none", or "core": HOME, LANG, LC_ALL, LC_CTYPE, LOGNAME, PATH, SHELL, TEMP, TMP, TMPDIR, USER, in any
    #: case
    inherit: str

    #: `ignoreDefaultExcludes` inherits secrets, too: variables with names like *KEY*, *SECRET* and *TOKEN*, and others
    #: in section 4.2.
    ignoreDefaultExcludes: bool

    #: patterns of inherited names
    exclude: List[str]

    #: variables to add, at most 10,000, subject to `includeOnly`
    set: Dict[str, str]

    #: patterns; empty: all
    includeOnly: List[str]


class EnvironmentConfigReadParams(TypedDict):
    """EnvironmentConfigReadParams selects parts of configuration files. A path is a list of `toml` keys, and selects
    the value with these keys."""

    #: whose project's files are read too
    cwd: str

    configPaths: List[List[str]]

    requirementsPaths: List[List[str]]


class EnvironmentConfigReadResult(TypedDict):
    """EnvironmentConfigReadResult is the answer to environmentConfig/read."""

    userHomeDir: Optional[str]

    codexHomeDir: str

    #: with the domain, if the resolver tells it within a second
    hostname: Optional[str]

    config: ConfigLayers

    requirements: ConfigLayers


class EnvironmentInfo(TypedDict):
    """`environmentInfo` describes the machine running the programs."""

    shell: Shell

    executorVersion: str

    #: stable for one installation
    providerId: str

    #: file URI
    cwd: str

    #: file URI
    userHomeDir: str

    #: such as "linux"
    platformOs: str

    #: file URIs, put before an inherited PATH
    prependPathDirs: List[str]

    #: file URIs, besides `tempDir`
    temporaryDirectories: List[str]

    #: file URI
    tempDir: str

    #: `capabilities` are the server's abilities, by exec-server's names; httpRequest is ours. A client may call the
    #: methods of a capability only if its value is true.
    capabilities: Dict[str, bool]


class EnvironmentStatusResult(TypedDict):
    """EnvironmentStatusResult is the answer to environment/status."""

    #: "ready"
    status: str


class _Error(TypedDict):
    #: a `code` constant, or the code of another server
    code: int

    #: the peer's text, where clients compare texts
    message: str


class Error(_Error, total=False):
    """Error is a failure on the wire, and a Go error."""

    #: from a troupe server: an object with the kind, the advice and the limit
    data: Details


class EvictedNotification(TypedDict):
    """EvictedNotification says the server has given the process up and killed it. Output the client has not received is
    lost. closed follows."""

    processId: str

    #: after the last seq in use
    seq: int

    #: for people
    reason: str


class _ExitStatus(TypedDict):
    #: 128 + signal if a signal ended the run
    exitCode: int


class ExitStatus(_ExitStatus, total=False):
    """ExitStatus says how one run of a process ended. `exitCode` is exec-server wire §4; the other members are ours,
    and left out if zero."""

    #: such as "SIGKILL"; empty: no signal
    signal: str

    coreDumped: bool

    #: killed because of timeoutMs
    timedOut: bool

    #: killed by the kernel for lack of memory
    oomKilled: bool

    #: why the server ended the run; empty: the server did not
    reason: str

    #: from 1; a restart begins another run
    run: int

    rusage: Rusage


class _ExitedNotification(TypedDict):
    processId: str

    seq: int

    #: 128 + signal if a signal ended the run
    exitCode: int

    #: the sandbox has probably denied something to the run: a guess
    sandboxDenied: bool


class ExitedNotification(_ExitedNotification, total=False):
    """ExitedNotification says the process has ended. Its output may go on while a descendant holds the stream. The
    members of exec-server come first."""

    #: such as "SIGKILL"; empty: no signal
    signal: str

    coreDumped: bool

    #: killed because of timeoutMs
    timedOut: bool

    #: killed by the kernel for lack of memory
    oomKilled: bool

    #: why the server ended the run; empty: the server did not
    reason: str

    #: from 1; a restart begins another run
    run: int

    rusage: Rusage


class _ExternalPolicy(TypedDict):
    type: str


class ExternalPolicy(_ExternalPolicy, total=False):
    """externalPolicy leaves files as without a sandbox."""

    networkAccess: str


class _FilePermissions(TypedDict):
    type: str


class FilePermissions(_FilePermissions, total=False):
    """filePermissions are of type unrestricted (files as without a sandbox) or restricted (as `entries` say, and
    nothing else)."""

    #: at most 1,024; none: the program may read nothing, so it cannot run
    entries: Optional[List[PermissionEntry]]

    #: how many directories deep patterns are searched, from 1, the directory that a pattern begins with; absent: no
    #: limit
    glob_scan_max_depth: Optional[int]


class FirstExecExitedNotification(TypedDict):
    """FirstExecExitedNotification says a program has ended."""

    sessionId: str

    exitCode: int


class FirstExecOutputDeltaNotification(TypedDict):
    """FirstExecOutputDeltaNotification is a piece of output."""

    sessionId: str

    stream: Stream

    chunk: bytes


class _FirstExecParams(TypedDict):
    argv: List[str]

    #: an absolute path
    cwd: str

    #: the whole environment
    env: Dict[str, str]

    #: false: there is no stdin
    tty: bool


class FirstExecParams(_FirstExecParams, total=False):
    """FirstExecParams starts a program, in the first exec-server wire."""

    arg0: Optional[str]

    #: absent: absent or null, as below
    sandbox: None

    sandboxPolicy: None

    permissionProfile: None


class FirstExecResult(TypedDict):
    """FirstExecResult has the server's name for a program: session-1, session-2, … of this connection."""

    sessionId: str


class FirstExecTerminateParams(TypedDict):
    """FirstExecTerminateParams kills a program with all its descendants."""

    sessionId: str


class FirstExecTerminateResult(TypedDict):
    """FirstExecTerminateResult says whether the program was running."""

    running: bool


class FirstExecWriteParams(TypedDict):
    """FirstExecWriteParams writes to stdin."""

    sessionId: str

    chunk: bytes


class FirstExecWriteResult(TypedDict):
    """FirstExecWriteResult says the bytes will be written."""

    accepted: bool


class FsAppMetadataResult(TypedDict):
    """FsAppMetadataResult is the answer to fs/getMetadata in the app-server wire. The members are as in
    FsGetMetadataResult."""

    isDirectory: bool

    isFile: bool

    isSymlink: bool

    createdAtMs: int

    modifiedAtMs: int


class _FsCanonicalizeParams(TypedDict):
    path: str


class FsCanonicalizeParams(_FsCanonicalizeParams, total=False):
    """FsCanonicalizeParams names an existing path, which may contain links."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class FsCanonicalizeResult(TypedDict):
    """FsCanonicalizeResult is the answer to fs/canonicalize."""

    #: a file URI without symbolic links
    path: str


class FsChangedNotification(TypedDict):
    """FsChangedNotification says that files have changed: the watched file, the watched directory, or entries of the
    directory."""

    watchId: str

    #: sorted; the watched path alone if there were too many
    changedPaths: List[str]


class _FsCloseParams(TypedDict):
    handleId: str


class FsCloseParams(_FsCloseParams, total=False):
    """FsCloseParams closes a handle. A file opened with `replace` then replaces the old file."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class _FsCopyParams(TypedDict):
    sourcePath: str

    destinationPath: str


class FsCopyParams(_FsCopyParams, total=False):
    """FsCopyParams copies a file or directory."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: needed for a directory
    recursive: Optional[bool]


class _FsCreateDirectoryParams(TypedDict):
    path: str


class FsCreateDirectoryParams(_FsCreateDirectoryParams, total=False):
    """FsCreateDirectoryParams names a directory to create."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: `followSymlinks` is true or absent to follow links. False refuses a path with a component that is a link.
    followSymlinks: Optional[bool]

    #: also create parents, and accept an existing directory; absent means true
    recursive: Optional[bool]


class FsDirectoryEntry(TypedDict):
    """FsDirectoryEntry describes an entry; for a symbolic link, it describes the target. `isDirectory` and `isFile` are
    both false for other kinds of files."""

    fileName: str

    isDirectory: bool

    isFile: bool


class _FsEntry(TypedDict):
    fileName: str

    kind: FsKind

    #: the permission bits, and set-user-`id`, set-group-`id` and sticky as in chmod(2)
    mode: int

    #: bytes
    size: int

    #: since 1970
    modifiedAtMs: int


class FsEntry(_FsEntry, total=False):
    """FsEntry describes a file, as in a listing."""

    #: the name, if `fileName` is not UTF-8
    nameBase64: bytes

    #: of a symbolic link, as the link has it
    target: str


class _FsGetMetadataParams(TypedDict):
    path: str


class FsGetMetadataParams(_FsGetMetadataParams, total=False):
    """FsGetMetadataParams names a file, directory or link."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: `followSymlinks` is true or absent to follow links. False refuses a path with a component that is a link.
    followSymlinks: Optional[bool]


class FsGetMetadataResult(TypedDict):
    """FsGetMetadataResult describes the target of a symbolic link, except `isSymlink`, which describes the path itself.
    With NoFollow there is no link."""

    isDirectory: bool

    isFile: bool

    isSymlink: bool

    #: bytes
    size: int

    #: since 1970; 0 means unknown, as always when links are followed
    createdAtMs: int

    #: since 1970
    modifiedAtMs: int


class _FsListParams(TypedDict):
    path: str


class FsListParams(_FsListParams, total=False):
    """FsListParams names a directory to list."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class FsListResult(TypedDict):
    """FsListResult has all entries of a directory, sorted by their bytes. Links are described themselves."""

    entries: List[FsEntry]


class FsMissingChangedNotification(TypedDict):
    """FsMissingChangedNotification ends the watch `watchId`: a watched path has changed."""

    watchId: int


class _FsOpenParams(TypedDict):
    handleId: str

    path: str


class FsOpenParams(_FsOpenParams, total=False):
    """FsOpenParams opens a regular file. The client chooses the `handleId`."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: "" means `read`
    mode: Optional[FsMode]


class FsOpenResult(TypedDict):
    """FsOpenResult is the answer to fs/open, with the client's `handleId`."""

    handleId: str


class _FsReadBlockParams(TypedDict):
    handleId: str

    #: bytes from the beginning; beyond the end the chunk is empty
    offset: int

    #: bytes, 1 to 1 MiB (FsMaxBlock)
    len: int


class FsReadBlockParams(_FsReadBlockParams, total=False):
    """FsReadBlockParams asks for a part of an open file."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class FsReadBlockResult(TypedDict):
    """FsReadBlockResult is the answer to fs/readBlock."""

    chunk: bytes

    #: `chunk` is shorter than requested: the file ends there now
    eof: bool


class _FsReadDirectoryParams(TypedDict):
    path: str


class FsReadDirectoryParams(_FsReadDirectoryParams, total=False):
    """FsReadDirectoryParams names a directory to list."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class FsReadDirectoryResult(TypedDict):
    """FsReadDirectoryResult is the answer to fs/readDirectory."""

    #: in no order, without dangling links
    entries: List[FsDirectoryEntry]


class _FsReadFileParams(TypedDict):
    path: str


class FsReadFileParams(_FsReadFileParams, total=False):
    """FsReadFileParams names a regular file."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: `followSymlinks` is true or absent to follow links. False refuses a path with a component that is a link.
    followSymlinks: Optional[bool]


class FsReadFileResult(TypedDict):
    """FsReadFileResult is the answer to fs/readFile: the whole file."""

    dataBase64: bytes


class _FsRemoveParams(TypedDict):
    path: str


class FsRemoveParams(_FsRemoveParams, total=False):
    """FsRemoveParams names a file or directory to remove."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: `followSymlinks` is true or absent to follow links. False refuses a path with a component that is a link.
    followSymlinks: Optional[bool]

    #: remove a directory with all its content; absent means true
    recursive: Optional[bool]

    #: a missing path is no error; absent means true
    force: Optional[bool]


class _FsRenameParams(TypedDict):
    sourcePath: str

    destinationPath: str


class FsRenameParams(_FsRenameParams, total=False):
    """FsRenameParams gives a file another name, in the same filesystem. A file at the new name is replaced. A link is
    renamed itself."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class _FsSetMetadataParams(TypedDict):
    path: str


class FsSetMetadataParams(_FsSetMetadataParams, total=False):
    """FsSetMetadataParams changes the mode and the time of a file or directory. A absent member changes nothing."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: 0 to 0777; a directory keeps its other bits, a file loses them
    mode: Optional[int]

    modifiedAtMs: Optional[int]


class _FsStatParams(TypedDict):
    path: str


class FsStatParams(_FsStatParams, total=False):
    """FsStatParams names a file, directory or link."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: describe the target of a link, not the link
    follow: Optional[bool]


class _FsSymlinkParams(TypedDict):
    path: str

    #: as the link has it; need not exist
    target: str


class FsSymlinkParams(_FsSymlinkParams, total=False):
    """FsSymlinkParams makes a symbolic link. The path must be free."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class FsUnwatchParams(TypedDict):
    """FsUnwatchParams ends a watch. An unknown `watchId` is no error."""

    watchId: str


class FsWalkEntry(TypedDict):
    """FsWalkEntry is a file or directory found by a walk."""

    #: a file URI
    path: str

    #: "file" or "directory"
    kind: str


class FsWalkError(TypedDict):
    """FsWalkError is a path unreadable for a walk, with the reason."""

    #: a file URI
    path: str

    message: str


class _FsWalkOptions(TypedDict):
    #: 0: only the directory's own entries; at most 64
    maxDepth: int

    #: to list, with the first; 1 to 10,000
    maxDirectories: int

    #: to look at, listed or not; 1 to 50,000
    maxEntries: int


class FsWalkOptions(_FsWalkOptions, total=False):
    """FsWalkOptions bound a walk. Entries beyond a bound are left out, and the result is marked Truncated."""

    followDirectorySymlinks: Optional[bool]

    #: list a directory .x and do not enter it
    pruneHiddenDirectories: Optional[bool]


class _FsWalkParams(TypedDict):
    path: str

    options: FsWalkOptions


class FsWalkParams(_FsWalkParams, total=False):
    """FsWalkParams asks for the files and directories below `path`, within the bounds of `options`."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class FsWalkResult(TypedDict):
    """FsWalkResult is the answer to fs/walk. `truncated` means: entries beyond a bound were left out."""

    #: breadth first, sorted within each directory
    entries: List[FsWalkEntry]

    #: unreadable directories, and names that are not UTF-8
    errors: List[FsWalkError]

    truncated: bool


class _FsWatchMissingParams(TypedDict):
    watchId: int

    missing: List[str]


class FsWatchMissingParams(_FsWatchMissingParams, total=False):
    """FsWatchMissingParams begins a watch. The server sends an FsMissingChangedNotification, once, when a path of
    `missing` exists or a path of `present` does not."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    present: Optional[FsPaths]


class FsWatchMissingResult(TypedDict):
    """FsWatchMissingResult is the answer to fs/watchMissing."""

    #: always true
    watching: bool


class FsWatchParams(TypedDict):
    """FsWatchParams begins a watch of `path`, a file or directory, which may be missing. FsChangedNotifications follow,
    until fs/unwatch. (app-server wire.)"""

    watchId: str

    path: str


class FsWatchResult(TypedDict):
    """FsWatchResult is the answer to fs/watch, with the path without dots and doubled slashes."""

    path: str


class _FsWriteBlockParams(TypedDict):
    handleId: str

    #: bytes from the beginning; skipped bytes read as zeros
    offset: int

    #: 1 to 1 MiB (FsMaxBlock)
    chunk: bytes


class FsWriteBlockParams(_FsWriteBlockParams, total=False):
    """FsWriteBlockParams writes a part of a file opened with `replace` or `update`."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]


class _FsWriteFileParams(TypedDict):
    path: str

    dataBase64: bytes


class FsWriteFileParams(_FsWriteFileParams, total=False):
    """FsWriteFileParams replaces the whole content of a file."""

    #: `sandbox` says what the call may do; absent or null: everything.
    sandbox: Optional[SandboxParams]

    #: `followSymlinks` is true or absent to follow links. False refuses a path with a component that is a link.
    followSymlinks: Optional[bool]


class _GapNotification(TypedDict):
    processId: str

    #: = `toSeq`: the gap takes the place of the dropped output
    seq: int

    fromSeq: int

    toSeq: int

    reason: str


class GapNotification(_GapNotification, total=False):
    """GapNotification replaces dropped output."""

    #: 0: unknown
    bytes: int


class GiveUp(TypedDict, total=False):
    """`giveUp` are the exits after which a retry is pointless. After `count` such exits in a period, the process is
    given up."""

    #: at most 256
    exitCodes: Optional[List[int]]

    #: at most 256, such as "SIGSEGV"
    signals: Optional[List[str]]

    #: up to 1,000; 0 or 1: the first exit is enough
    count: Optional[int]

    #: 0: unlimited
    periodMs: Optional[int]


class _GroupChangedNotification(TypedDict):
    groupId: str

    #: as in GroupInfo
    state: str


class GroupChangedNotification(_GroupChangedNotification, total=False):
    """GroupChangedNotification has the new state of a group."""

    reason: str


class _GroupInfo(TypedDict):
    groupId: str

    strategy: GroupStrategy

    #: `state` is starting, ready (all running processes are ready), restarting, stopping or ended.
    state: str

    #: restarts counted for Intensity
    restarts: int

    #: in start order
    processes: List[GroupMember]


class GroupInfo(_GroupInfo, total=False):
    """GroupInfo is a group in a listing."""

    #: why the group is stopping, or was stopped
    reason: str


class GroupListResult(TypedDict):
    """GroupListResult is every group of the session. An ended group is known as long as a closed process is."""

    groups: List[GroupInfo]


class _GroupMember(TypedDict):
    processId: str

    #: waiting, running, ending or left
    state: str

    #: 0: none yet
    run: int

    ready: bool


class GroupMember(_GroupMember, total=False):
    """GroupMember is the state of a process in its group."""

    #: why the process is run again, is ended or has left
    reason: str

    #: of its start
    label: str


class _GroupStartParams(TypedDict):
    #: unique among the session's groups, at most 1,024 bytes
    groupId: str

    #: 1 to 1,000, with at most 10,000 entries of `dependsOn` in all
    processes: List[ProcessStartParams]


class GroupStartParams(_GroupStartParams, total=False):
    """GroupStartParams starts processes supervised together. All processes get their ids at once. Each process is run
    when its dependencies are ready."""

    #: absent: one_for_one
    strategy: Optional[GroupStrategy]

    #: `intensity` is for all processes together. With another restart the group is ended. absent: 5 in 60 s. Not for
    #: `independent`.
    intensity: Optional[Intensity]

    #: `extend` adds the processes to the group if the group exists. A process that has left the group gives way to a
    #: process with its id. Only for `independent`.
    extend: Optional[bool]

    #: `startToken` makes the start of the group repeatable, like the `startToken` of a process. The StartTokens of its
    #: processes are ignored.
    startToken: Optional[str]


class GroupStartResult(TypedDict):
    """GroupStartResult is the answer to group/start. Requests for the processes are allowed from now on."""

    groupId: str

    #: in start order; the server ends them in reverse order
    processes: List[str]


class _GroupStopParams(TypedDict):
    groupId: str


class GroupStopParams(_GroupStopParams, total=False):
    """GroupStopParams ends a group: its processes one after another, the last started first. The answer comes when all
    have ended."""

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]


class HTTPBodyDeltaNotification(TypedDict):
    """HTTPBodyDeltaNotification is a piece of a streamed body. The pieces come after the result, in the order of `seq`,
    from 1 on."""

    requestId: str

    seq: int

    deltaBase64: bytes

    #: the last piece; `deltaBase64` is empty
    done: bool

    #: in the last piece: why the body is incomplete; absent: complete
    error: Optional[str]


class HTTPHeader(TypedDict):
    """HTTPHeader is a header field of a response. A name may occur several times."""

    name: str

    value: str


class _HTTPRequestHeader(TypedDict):
    name: str


class HTTPRequestHeader(_HTTPRequestHeader, total=False):
    """HTTPRequestHeader is a header field of a request. A name may occur several times. Without a `valueEnvVar`,
    `value` is required."""

    value: Optional[str]

    #: `valueEnvVar` names a variable in the environment of the server. Its value follows `value`.
    valueEnvVar: Optional[str]


class _HTTPRequestParams(TypedDict):
    #: sent as it is: get is not GET. Not CONNECT
    method: str

    #: absolute, http or https, at most 64 KiB; user:password@ becomes basic authentication
    url: str

    #: `requestId` names the stream in each HTTPBodyDeltaNotification. No other stream of the connection may use this
    #: name until the last notification. At most 1,024 bytes.
    requestId: str


class HTTPRequestParams(_HTTPRequestParams, total=False):
    """HTTPRequestParams describes the `http` request, and the form of the answer."""

    #: `headers` have at most 1 MiB together. Fields of the same name keep their order; names have no order. A host
    #: replaces that of the `url`. The server ignores content-length, transfer-encoding and trailer: the length is that
    #: of the body.
    headers: Optional[List[HTTPRequestHeader]]

    bodyBase64: Optional[bytes]

    #: `timeoutMs` is how long the whole exchange may take, from the arrival of the request at the server to the end of
    #: the response's body, in milliseconds. absent or 0 means: as long as the connection lives.
    timeoutMs: Optional[int]

    #: `follow` (or ""): up to 10 redirects. `stop`: the redirect is the response
    redirectPolicy: Optional[HTTPRedirectPolicy]

    #: `streamResponse` asks for the body in notifications; the body in the result is then empty.
    streamResponse: Optional[bool]


class HTTPRequestResult(TypedDict):
    """HTTPRequestResult is a response with any status."""

    status: int

    #: names in lower case
    headers: List[HTTPHeader]

    bodyBase64: bytes


class _HolderInfo(TypedDict):
    available: bool


class HolderInfo(_HolderInfo, total=False):
    """HolderInfo says whether programs outlive a server that is killed or upgraded, and how the server was replaced
    last."""

    #: why programs end with the server, and what helps; for people. Absent if they do not
    why: str

    #: how many servers the holder has had, with this one
    servers: int

    #: how this server came; absent: it is the first
    replaced: Replacement


class _HolderProcess(TypedDict):
    #: as the server sees it
    pid: int

    #: its start as in proc_pid_stat(5): no other process of the machine has both
    startTicks: int


class HolderProcess(_HolderProcess, total=False):
    """`holderProcess` names the process that holds the programs of a server: SIGHUP to this process asks for an
    upgrade."""

    #: `refused` is the last upgrade that this server has survived; absent: there was none.
    refused: RefusedUpgrade


class _InitializeParams(TypedDict):
    #: `clientName` is for logs and listings; it may be empty.
    clientName: str


class InitializeParams(_InitializeParams, total=False):
    """InitializeParams opens a session or resumes an existing session. `clientName` and `resumeSessionId` are
    exec-server wire, and the other members are ours. The app-server wire has ClientInfoParams instead."""

    #: `resumeSessionId` is the session to resume. absent opens a new session; "" names a session that does not exist.
    resumeSessionId: Optional[str]

    #: `capabilities` are the notifications and acknowledgements known to the client.
    capabilities: Optional[Capabilities]

    #: `resumeFrom` asks for replay. It has the last seq received by the client, by process id; later messages are sent
    #: again, 0 means all. Of a process missing in `resumeFrom` the owner gets what it has not acknowledged. absent: no
    #: replay, as in exec-server. Only with `resumeSessionId`.
    resumeFrom: Optional[Dict[str, int]]

    #: `takeover` evicts the connection of an attached session. Without `takeover`, resuming an attached session fails
    #: with code -32010.
    takeover: Optional[bool]

    #: `role` is the role of the connection in the session; absent means owner.
    role: Optional[Role]

    #: `session` sets up a new session; ignored when resuming.
    session: Optional[SessionOptions]

    #: `placement` says which server of a cluster gets a new session; ignored when resuming.
    placement: Optional[Placement]

    #: `token` is the bearer token of a client at a socket with length-prefixed frames. See TokenIn.
    token: Optional[str]


class _InitializeResult(TypedDict):
    sessionId: str

    server: ServerInfo

    #: `exec-server.v1+troupe.1`; `exec-server.v0` for clients naming no capability
    protocolVersion: str

    limits: Limits


class InitializeResult(_InitializeResult, total=False):
    """InitializeResult is the answer to initialize. `server` and the members after it are ours."""

    #: absent: ask environment/info
    environmentInfo: EnvironmentInfo

    #: `userAgent` and the members after it belong to the app-server wire. Only clients sending a `clientInfo` get them.
    #: begins with name/version of the client
    userAgent: str

    #: the directory of the peer's files; a path
    codexHome: str

    platformFamily: str

    platformOs: str


class InstalledPlugin(TypedDict):
    """InstalledPlugin is a plugin with its files and skills."""

    #: name@marketplace
    id: str

    #: of the plugin's file .codex-remote-plugin-install.json
    remotePluginId: Optional[str]

    version: str

    root: str

    files: PluginFiles

    skills: List[InstalledSkill]


class InstalledSkill(TypedDict):
    """InstalledSkill describes a skill, without its instructions."""

    name: str

    #: the name of the plugin around the skill
    namespace: Optional[str]

    description: str

    shortDescription: Optional[str]

    #: of SKILL.md
    path: str

    metadata: Optional[DiscoveredFile]


class Intensity(TypedDict, total=False):
    """Intensity is how many restarts are allowed in a period, as in OTP. With another restart the process is given up.
    Each member that is absent has its own default."""

    #: up to 1,000; absent: 5; 0: no restart
    restarts: Optional[int]

    #: absent: 60,000; 0: unlimited
    periodMs: Optional[int]


class Limits(TypedDict):
    """Limits of this server, in bytes or milliseconds if the name says so."""

    #: of one websocket frame
    maxFrameBytes: int

    #: of one message, which may have many frames
    maxMessageBytes: int

    #: of one session
    maxProcesses: int

    #: of one connection; beyond it, the server stops reading the socket
    maxPendingRequests: int

    #: of one connection: sent and not acknowledged
    windowBytes: int

    #: of one process, by default
    retentionBytes: int

    #: of one process, on request
    maxRetentionBytes: int

    #: of one process, on disk; 0: there is no spool
    maxSpoolBytes: int

    #: of one process: accepted and not yet written
    stdinQueueBytes: int

    #: default for a session; 0: no limit
    detachedTtlMs: int

    #: how long a process is known after closed
    closedRetentionMs: int

    pingIntervalMs: int

    #: without a Pong; then the session is detached
    deadConnectionMs: int


class Liveness(TypedDict, total=False):
    """Liveness says when a running process counts as dead. The server then kills the run, and the run has failed."""

    #: the run has written nothing for this time, although it could; 0: silence is allowed
    silenceMs: Optional[int]

    #: succeeds only while the process lives
    probe: Optional[Probe]


class Metadata(TypedDict, total=False):
    """Metadata says to which part of the client's work a process belongs."""

    #: a UUID
    threadId: Optional[str]

    toolCallId: Optional[str]


class NoParams(TypedDict):
    """NoParams are the params of a method without params. Absent params, null and {} are accepted; any member is
    refused."""


class OtherRun(TypedDict):
    """OtherRun is the result of a request for a run other than the current run. Nothing was done."""

    #: always false
    applied: bool

    #: the current run
    run: int


class _OutputNotification(TypedDict):
    processId: str

    seq: int

    stream: Stream

    #: base64 in JSON
    chunk: bytes


class OutputNotification(_OutputNotification, total=False):
    """OutputNotification is a piece of output."""

    #: since the Unix epoch; 0 without Capabilities.Times.
    atMs: int


class _PermissionEntry(TypedDict):
    path: PermissionPath

    #: write includes read; none is another name of deny
    access: SandboxAccess


class PermissionEntry(_PermissionEntry, total=False):
    #: skip; without effect on Linux
    missing_path_behavior: Optional[str]


class _PermissionPath(TypedDict):
    type: str


class PermissionPath(_PermissionPath, total=False):
    """permissionPath is of type path (`path`, and everything below), glob_pattern (every file that matches `pattern`;
    only with deny) or special (`value`)."""

    path: Optional[str]

    pattern: Optional[str]

    value: Optional[SpecialPath]


class _Permissions(TypedDict):
    type: str


class Permissions(_Permissions, total=False):
    """permissions are of type disabled (not confined), external (files are as without a sandbox, because the client
    confines the program itself; with `network`) or managed (with `network` and `file_system`)."""

    file_system: Optional[FilePermissions]

    #: enabled: as without a sandbox; restricted: none
    network: Optional[str]


class Placement(TypedDict, total=False):
    """Placement is a wish for the server of a new session, in a cluster. Without wishes, the cluster looks for room. A
    wish that no server meets is refused."""

    #: `labels` are those that the server has to have: at most 16, of at most 63 bytes each.
    labels: Optional[Dict[str, str]]

    #: `node` is the name of the server.
    node: Optional[str]

    #: `key` keeps sessions together: those with the same key go to the same server, as long as it is there and has
    #: room. At most 256 bytes.
    key: Optional[str]


class PluginFiles(TypedDict):
    """PluginFiles are the files of a plugin. The manifest names the others by its members mcpServers and apps: paths
    that begin with ./ and stay below the root."""

    manifest: DiscoveredFile

    #: without mcpServers in the manifest, .mcp.json
    mcpConfig: Optional[DiscoveredFile]

    appsConfig: Optional[DiscoveredFile]


class PolicyContext(TypedDict, total=False):
    cwd: Optional[str]

    workspaceRoots: List[str]


class Probe(TypedDict, total=False):
    """Probe is a look at a process, again and again: a command, or an `http` request of the server. The command runs in
    the directory of the process, with its environment, limits and sandbox, and its output is dropped. The server
    follows no redirect, uses no proxy, and does not check the certificate."""

    #: succeeds with exit code 0
    argv: Optional[List[str]]

    #: an address with http or https, of at most 1 KiB; GET succeeds with a status from 200 to 399
    http: Optional[str]

    #: before the first probe of a run; absent: everyMs, and in Ready 0
    delayMs: Optional[int]

    #: from the end of a probe to the next; 0: 10,000, and in Ready 1,000
    everyMs: Optional[int]

    #: then the probe is killed and has failed; 0: 5,000
    timeoutMs: Optional[int]

    #: failures in a row until the process counts as dead; 0: 3
    failures: Optional[int]


class _ProcessCloseStdinParams(TypedDict):
    processId: str


class ProcessCloseStdinParams(_ProcessCloseStdinParams, total=False):
    """ProcessCloseStdinParams closes a process's stdin after all earlier writes."""

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]

    #: `run` is the only run for which the request is meant, from 1. If the process is at another run, nothing is done
    #: and the result is an OtherRun. 0 means: any run.
    run: Optional[int]


class _ProcessInfo(TypedDict):
    processId: str

    #: as in `state`; later servers may have others
    state: str

    #: from 1
    run: int

    #: cut after 4 KiB
    argv: List[str]

    #: file URI
    cwd: str

    tty: bool

    #: since the Unix epoch; 0: not yet
    startedAtMs: int

    #: the method for finding its descendants: cgroup, …
    containment: str

    #: the oldest seq still held
    firstSeq: int

    #: the next seq
    nextSeq: int

    #: bytes of its output held
    retainedBytes: int

    #: bytes held and not acknowledged by the owner
    unackedBytes: int


class ProcessInfo(_ProcessInfo, total=False):
    """ProcessInfo is a process in a listing."""

    #: of this process alone: a later process with the id has another
    instance: str

    #: its groupId
    group: str

    #: a run exists, and its `ready` condition is met
    ready: bool

    #: of restarting: until the next run
    restartInMs: int

    #: absent: not started, or gone; in a sandbox that restricts files, the pid of its jail
    pid: int

    #: the program has a stdin that nobody has closed
    stdinOpen: bool

    #: of the run, or else of the last run; absent: the user of the server
    user: RunUser

    #: `sandbox` says in a word how the run, or else the last run, is confined: read-only, workspace-write, custom (some
    #: files are hidden, or more is writable), seccomp (files are as outside) or disabled; with ",net" behind if it may
    #: use the network. Empty: not at all.
    sandbox: str

    #: `sandboxLevel` is the level of a sandbox that restricts files: `complete`, or `oldProc`, which shows the server's
    #: /proc, read-only; later servers may have others.
    sandboxLevel: str

    #: absent: it has not ended
    status: ExitStatus

    #: `endsWithServer` says that the process ends if its server is killed or upgraded, although other programs of the
    #: server go on (HolderInfo.Available): its session is ephemeral.
    endsWithServer: bool


class ProcessInfoParams(TypedDict):
    """ProcessInfoParams asks about the state of a process, and the reasons for its waiting."""

    processId: str


class _ProcessInfoResult(TypedDict):
    processId: str

    #: as in `state`; later servers may have others
    state: str

    #: from 1
    run: int

    #: cut after 4 KiB
    argv: List[str]

    #: file URI
    cwd: str

    tty: bool

    #: since the Unix epoch; 0: not yet
    startedAtMs: int

    #: the method for finding its descendants: cgroup, …
    containment: str

    #: the oldest seq still held
    firstSeq: int

    #: the next seq
    nextSeq: int

    #: bytes of its output held
    retainedBytes: int

    #: bytes held and not acknowledged by the owner
    unackedBytes: int

    #: since its last output, or since its run began
    quietMs: int

    #: most important first; empty: the process has closed
    waitsFor: List[Wait]

    #: process/write requests that wait because the process does not read stdin, or because of --max-stdin-rate-each
    pendingWrites: int

    #: bytes of all output so far
    outputBytes: int

    #: bytes of its output no longer held, read by the owner or not
    droppedBytes: int

    #: connections receiving its output now
    viewers: List[Viewer]


class ProcessInfoResult(_ProcessInfoResult, total=False):
    """ProcessInfoResult is ProcessInfo, and the reasons why a process is quiet."""

    #: of this process alone: a later process with the id has another
    instance: str

    #: its groupId
    group: str

    #: a run exists, and its `ready` condition is met
    ready: bool

    #: of restarting: until the next run
    restartInMs: int

    #: absent: not started, or gone; in a sandbox that restricts files, the pid of its jail
    pid: int

    #: the program has a stdin that nobody has closed
    stdinOpen: bool

    #: of the run, or else of the last run; absent: the user of the server
    user: RunUser

    #: `sandbox` says in a word how the run, or else the last run, is confined: read-only, workspace-write, custom (some
    #: files are hidden, or more is writable), seccomp (files are as outside) or disabled; with ",net" behind if it may
    #: use the network. Empty: not at all.
    sandbox: str

    #: `sandboxLevel` is the level of a sandbox that restricts files: `complete`, or `oldProc`, which shows the server's
    #: /proc, read-only; later servers may have others.
    sandboxLevel: str

    #: absent: it has not ended
    status: ExitStatus

    #: `endsWithServer` says that the process ends if its server is killed or upgraded, although other programs of the
    #: server go on (HolderInfo.Available): its session is ephemeral.
    endsWithServer: bool

    #: bytes of its output held on disk
    spooledBytes: int

    #: why the server could not make the last probe; the probe did not count
    probeError: str

    #: absent: no run goes on, or its usage is unknown, as on systems other than Linux
    usage: Usage


class ProcessKillParams(TypedDict):
    """ProcessKillParams kills a program with all its descendants."""

    processHandle: str


class ProcessLimits(TypedDict, total=False):
    """ProcessLimits are the limits on a process's use of the machine. absent means: the server's own limit. Descendants
    inherit the limits."""

    #: `nofile` to `fileSizeBytes` apply to each process on its own, as soft and hard limit. (setrlimit(2))
    #: RLIMIT_NOFILE: file descriptors
    nofile: Optional[int]

    #: RLIMIT_CPU, from 1: then SIGXCPU, and SIGKILL a second later
    cpuSeconds: Optional[int]

    #: RLIMIT_AS: memory that a process maps
    addressSpaceBytes: Optional[int]

    #: RLIMIT_NPROC: processes and threads of the user, whoever started them; root is exempt
    processes: Optional[int]

    #: RLIMIT_CORE: a core dump; 0: none
    coreBytes: Optional[int]

    #: RLIMIT_FSIZE: a file that a process writes; then SIGXFSZ
    fileSizeBytes: Optional[int]

    #: -20, the highest priority, to 19
    nice: Optional[int]

    #: -1000, never killed when the machine lacks memory, to 1000, killed first
    oomScoreAdj: Optional[int]

    #: `memoryBytes`, `pids` and `cpus` apply to a process and its descendants together. (cgroup-v2.rst of the kernel)
    #: memory.max, from 1, without swap: beyond it all of them are killed, with oomKilled
    memoryBytes: Optional[int]

    #: pids.max: processes and threads, 1 to 4,194,304
    pids: Optional[int]

    #: cpu.max: number of `cpus`, 0.01 to 100,000; 0.5 is half the time of a `cpu`
    cpus: Optional[float]


class ProcessListParams(TypedDict, total=False):
    """ProcessListParams chooses processes: those for which every member holds. An absent or empty member holds for
    all."""

    #: one of these
    processIds: Optional[List[str]]

    #: in one of these
    states: Optional[List[State]]

    #: of the group with this groupId
    group: Optional[str]


class ProcessListResult(TypedDict):
    """ProcessListResult has the chosen processes of the session, the first started first, including closed processes
    not forgotten yet."""

    processes: List[ProcessInfo]


class ProcessOutputDeltaNotification(TypedDict):
    """ProcessOutputDeltaNotification is a piece of output."""

    processHandle: str

    stream: Stream

    deltaBase64: bytes

    #: no more output of this stream follows
    capReached: bool


class _ProcessReadParams(TypedDict):
    processId: str


class ProcessReadParams(_ProcessReadParams, total=False):
    """ProcessReadParams asks for past or future output."""

    #: return chunks with a greater seq; 0: all
    afterSeq: Optional[int]

    #: `maxBytes` bounds the total size of the chunks, but the first chunk may be larger. absent means no bound.
    maxBytes: Optional[int]

    #: `waitMs` is how long to wait for output or the end, in milliseconds. The value may exceed the range of
    #: time.Duration.
    waitMs: Optional[int]

    #: `detail` asks for the members `timesMs` and Events of the answer. Empty: neither.
    detail: Optional[ReadDetail]

    #: `instance` is the `instance` of the ProcessInfo. If another process has the id by now, the request is refused as
    #: for an unknown process. Empty: any process with the id.
    instance: Optional[str]


class _ProcessReadResult(TypedDict):
    #: in order of seq
    chunks: List[Chunk]

    #: to read on, send afterSeq `nextSeq`-1
    nextSeq: int

    #: the current state, independent of `chunks`
    exited: bool

    #: absent: not exited
    exitCode: Optional[int]

    #: the current state
    closed: bool

    #: why output was lost; absent: none was lost
    failure: Optional[str]

    #: as in ExitedNotification; false: not exited
    sandboxDenied: bool

    #: the oldest seq still held; 0: unknown
    firstSeq: int


class ProcessReadResult(_ProcessReadResult, total=False):
    """ProcessReadResult is the answer to process/read. exec-server wire §5 says when the answer comes and how
    `nextSeq` is chosen; `firstSeq` is ours."""

    #: `timesMs` is when the server got the first byte of each of `chunks`, in milliseconds since the Unix epoch.
    #: `events` are the events of the process among the entries read. Only with Detail.
    timesMs: List[int]

    events: List[ReadEvent]

    #: `instance` is that of the ProcessInfo. Only with Detail.
    instance: str


class _ProcessResizeParams(TypedDict):
    processId: str

    size: Size


class ProcessResizeParams(_ProcessResizeParams, total=False):
    """ProcessResizeParams sets the size of a process's PTY."""

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]

    #: `run` is the only run for which the request is meant, from 1. If the process is at another run, nothing is done
    #: and the result is an OtherRun. 0 means: any run.
    run: Optional[int]


class ProcessResizePtyParams(TypedDict):
    """ProcessResizePtyParams sets the size of a PTY."""

    processHandle: str

    size: TerminalSize


class _ProcessRestartParams(TypedDict):
    processId: str


class ProcessRestartParams(_ProcessRestartParams, total=False):
    """ProcessRestartParams ends the current run, if any, and begins the next run, under any policy. This restart does
    not count for Intensity."""

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]

    #: `run` is the only run for which the request is meant, from 1. If the process is at another run, nothing is done
    #: and the result is an OtherRun. 0 means: any run.
    run: Optional[int]


class _ProcessScreenParams(TypedDict):
    processId: str


class ProcessScreenParams(_ProcessScreenParams, total=False):
    """ProcessScreenParams asks for the screen of a process on a PTY, now or once a condition holds. Without `afterSeq`,
    `waitFor` and `quietMs` the answer comes at once. With several of them, all must hold."""

    #: answer with the newest lines that have scrolled off, at most so many
    scrollback: Optional[int]

    #: answer with colours and other attributes, too
    spans: Optional[bool]

    #: answer with bytes that draw the screen, too
    restore: Optional[bool]

    #: `afterSeq` holds once the screen has output with a greater seq. 0: holds.
    afterSeq: Optional[int]

    #: `waitFor` is a regular expression of RE2, of at most 1 KiB and 2,000 compiled steps. `waitFor` holds while it
    #: matches Lines, joined with newlines, up to the cursor or the last line that is not empty. The line of the cursor
    #: has blanks up to the cursor: "> $" matches a prompt. Of more than 128 KiB only the first count. Empty: holds. ^
    #: and $ match at each line only with (?m).
    waitFor: Optional[str]

    #: `quietMs` holds once the process has written nothing for this time, in milliseconds. 0: holds.
    quietMs: Optional[int]

    #: `waitMs` is how long to wait until all of them hold, in milliseconds. The wait also ends with the process. The
    #: value may exceed the range of time.Duration.
    waitMs: Optional[int]

    #: `instance` is the `instance` of the ProcessInfo. If another process has the id by now, the request is refused as
    #: for an unknown process. Empty: any process with the id.
    instance: Optional[str]


class _ProcessScreenResult(TypedDict):
    processId: str

    #: as in ProcessInfo
    instance: str

    #: the run of `seq`. A later run draws on the screen of the run before
    run: int

    #: `seq` is of the last output on this screen. Whoever draws the screen, and then subscribes after `seq`, has the
    #: terminal of the process.
    seq: int

    rows: int

    cols: int

    #: one for each row, without spaces at its end
    lines: List[str]

    cursor: ScreenCursor

    #: `altScreen`: the program uses the alternate screen, as full-screen programs do. It has no scrollback.
    altScreen: bool

    modes: ScreenModes

    #: how many lines the screen keeps that have scrolled off
    scrollbackLines: int

    #: `whole`: the screen has had all output that counts. False: output was no longer held when the screen began, or
    #: the screen has missed some; lines, attributes and modes may be wrong until the program draws all anew.
    whole: bool

    #: the current state, as in ProcessReadResult
    exited: bool

    #: the current state: nothing further comes
    closed: bool


class ProcessScreenResult(_ProcessScreenResult, total=False):
    """ProcessScreenResult is the screen of a process: what a terminal that has had all output would show."""

    #: one list for each row; only with ProcessScreenParams.`spans`
    spans: List[List[Span]]

    #: `foreground` and `background` are the defaults that the program has set (OSC 10 and 11), as "#rrggbb". Empty:
    #: those of the terminal.
    foreground: str

    background: str

    #: of the window, as the program has set it
    title: str

    #: the newest lines that have scrolled off, the oldest first
    scrollback: List[str]

    #: `restore` draws `scrollback` and the screen on a cleared terminal of `rows` and `cols`, and sets cursor, modes
    #: and title. On a terminal of another size the screen is cut or has room beside it. Only with
    #: ProcessScreenParams.`restore`. Base64 in JSON.
    restore: bytes

    #: `matched` says whether `afterSeq`, `waitFor` and `quietMs` hold for this screen. absent: the params had none of
    #: them.
    matched: bool


class _ProcessSetRestartParams(TypedDict):
    processId: str

    restart: Restart


class ProcessSetRestartParams(_ProcessSetRestartParams, total=False):
    """ProcessSetRestartParams changes the `restart` of a process started with a `restart`, from the next end on.
    Earlier restarts and exits no longer count."""

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]


class _ProcessSignalParams(TypedDict):
    processId: str

    signal: Signal


class ProcessSignalParams(_ProcessSignalParams, total=False):
    """ProcessSignalParams signals a process group."""

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]

    #: `run` is the only run for which the request is meant, from 1. If the process is at another run, nothing is done
    #: and the result is an OtherRun. 0 means: any run.
    run: Optional[int]


class _ProcessSpawnParams(TypedDict):
    #: the program and its arguments
    command: List[str]

    #: at most 1 KiB, not empty, and not used by a running program
    processHandle: str

    #: an absolute path
    cwd: str


class ProcessSpawnParams(_ProcessSpawnParams, total=False):
    """ProcessSpawnParams starts a program. The `processHandle` may be used again after the SpawnExitedNotification."""

    #: a terminal: implies the next two; all output is stdout
    tty: Optional[bool]

    #: false: stdin is empty
    streamStdin: Optional[bool]

    #: false: output comes at the end
    streamStdoutStderr: Optional[bool]

    #: only with `tty`; absent: 24 rows, 80 columns
    size: Optional[TerminalSize]

    #: of each stream, in bytes; absent: 1 MiB; null: no cap. Output beyond is dropped
    outputBytesCap: Optional[int]

    #: absent: 10 s; null: no limit; 0: at once. Then the program is killed, with exit code 124
    timeoutMs: Optional[int]

    #: added to the server's without its secrets; a null removes the variable
    env: Optional[Dict[str, Optional[str]]]

    #: absent: absent or null, as below
    sandbox: None

    sandboxPolicy: None

    permissionProfile: None


class _ProcessStartParams(TypedDict):
    #: `processId` is chosen by the client. It may be empty. It must be unique in its session until the closed process
    #: is forgotten.
    processId: str

    #: `argv` is the program and its arguments. The program is looked up in the PATH of the child. With `login`, it may
    #: be empty: then the program is the login shell of the user.
    argv: List[str]

    #: file URI; or ~ or ~/PATH, in the home of the user of the program
    cwd: str

    #: added to the variables from `envPolicy`
    env: Dict[str, str]

    #: true: run in a PTY; false: on pipes
    tty: bool


class ProcessStartParams(_ProcessStartParams, total=False):
    """ProcessStartParams starts a program. The members from `size` to `startToken` are ours, the others are exec-server
    wire §3."""

    #: `pipeStdin` gives a process without `tty` a pipe as stdin; without `pipeStdin`, stdin is /dev/null.
    pipeStdin: Optional[bool]

    #: argv[0] as the program sees it; absent: `argv`[0]
    arg0: Optional[str]

    #: absent: nothing is inherited
    envPolicy: Optional[EnvPolicy]

    #: of the PTY; absent: 24 rows, 80 columns
    size: Optional[Size]

    #: absent: the server's default
    retention: Optional[Retention]

    #: `screen` has the server keep the screen of the PTY from the first byte on. absent: from the first process/screen
    #: on.
    screen: Optional[StartScreen]

    #: `timeoutMs` is how long a run may take before the server ends it, in milliseconds. absent or 0 means: no limit.
    timeoutMs: Optional[int]

    #: `stopSignal` replaces SIGTERM as the signal asking the process to end. Absent: `terminate`.
    stopSignal: Optional[Signal]

    #: `killGraceMs` is the time between `stopSignal` and SIGKILL when the server ends the process, in milliseconds.
    #: absent means the server's default; 0 means SIGKILL at once. (PROTOCOL.md, section 7.4.)
    killGraceMs: Optional[int]

    #: `mergeStderr` sends stderr into the pipe of stdout: the output of both is Stdout, in the order written. A `tty`
    #: always merges both, as PTY.
    mergeStderr: Optional[bool]

    #: limits of each run; absent: the server's own
    limits: Optional[ProcessLimits]

    #: `user` is as whom the process runs: a name, a number of the system's users, or "uid:gid". Empty: the default user
    #: of the client's identity, or else the user of the server.
    user: Optional[str]

    #: `umask` is the mode mask in octal digits, as "022". Empty: the server's.
    umask: Optional[str]

    #: `login` gives the process the environment of a login: HOME, USER, LOGNAME, SHELL and PATH as login(1) sets them,
    #: nothing of the server's, and then `env`.
    login: Optional[bool]

    #: `noNewPrivs` keeps the process and its descendants from gaining privileges, as with set-user-`id` programs.
    #: False: as the server has it.
    noNewPrivs: Optional[bool]

    #: when to run again; absent: never
    restart: Optional[Restart]

    #: when a run is ready; absent: when it has begun
    ready: Optional[Ready]

    #: when a run counts as dead; absent: when it has ended
    liveness: Optional[Liveness]

    #: `dependsOn` are processes of the same group. They must be ready before this process is run.
    dependsOn: Optional[List[str]]

    #: `label` is for clients, at most 1,024 bytes: group/list has it, also after the end of the process. Only for a
    #: process of a group.
    label: Optional[str]

    #: `startToken` makes a start repeatable: a second start with the same `processId` and token gets the answer of the
    #: first. Empty means none.
    startToken: Optional[str]

    #: `trace` is the trace to which the start belongs; absent: a trace of its own. The member trace of the message
    #: itself means the same.
    trace: Optional[TraceContext]

    #: `traceEnv` gives each run its place in the trace, in the variables TRACEPARENT and TRACESTATE: the span of its
    #: start if the server traces, and else `trace`. Without either, the run gets none.
    traceEnv: Optional[bool]

    #: what the program may do; absent or null: everything
    sandbox: Optional[SandboxParams]

    #: The server has none of these, and refuses them, unless false or null.
    enforceManagedNetwork: Optional[bool]

    managedNetwork: None

    networkProxy: None

    #: By these, a command/exec gets a sandbox. A start of a process refuses them, unless null.
    sandboxPolicy: None

    permissionProfile: None

    #: absent: the command runs as it is
    shellSnapshot: Optional[ShellSnapshot]

    #: for logs
    metadata: Optional[Metadata]


class ProcessStartResult(TypedDict):
    """ProcessStartResult is the answer to process/start. Output may come before the answer."""

    processId: str

    #: `none` or `linuxSeccomp`
    sandboxType: str


class _ProcessSubscribeParams(TypedDict):
    processId: str


class ProcessSubscribeParams(_ProcessSubscribeParams, total=False):
    """ProcessSubscribeParams has the notifications of a process begin again after a seq."""

    #: 0: from the oldest held
    afterSeq: Optional[int]

    #: while this connection is there, the process waits rather than drop output that the connection has not
    #: acknowledged
    hold: Optional[bool]

    #: `instance` is the `instance` of the ProcessInfo. If another process has the id by now, the request is refused as
    #: for an unknown process. Empty: any process with the id.
    instance: Optional[str]


class _ProcessTerminateParams(TypedDict):
    processId: str


class ProcessTerminateParams(_ProcessTerminateParams, total=False):
    """ProcessTerminateParams kills a process group. `graceMs` and `tree` are ours."""

    #: `graceMs` is the time between `stopSignal` and SIGKILL in milliseconds. absent or 0 means SIGKILL at once, as
    #: exec-server does. (PROTOCOL.md, section 7.4.)
    graceMs: Optional[int]

    #: `tree` kills all descendants of the process, too, even after the process has exited.
    tree: Optional[bool]

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]

    #: `run` is the only run for which the request is meant, from 1. If the process is at another run, nothing is done
    #: and the result is an OtherRun. 0 means: any run.
    run: Optional[int]


class ProcessTerminateResult(TypedDict):
    """ProcessTerminateResult is the answer to process/terminate."""

    #: the process was still running; false also if unknown
    running: bool


class _ProcessWaitParams(TypedDict):
    processId: str


class ProcessWaitParams(_ProcessWaitParams, total=False):
    """ProcessWaitParams waits for the end of a process."""

    #: absent: no limit; 0: do not wait
    timeoutMs: Optional[int]

    #: `instance` is the `instance` of the ProcessInfo. If another process has the id by now, the request is refused as
    #: for an unknown process. Empty: any process with the id.
    instance: Optional[str]


class _ProcessWaitResult(TypedDict):
    #: false: the time was over
    exited: bool

    closed: bool


class ProcessWaitResult(_ProcessWaitResult, total=False):
    """ProcessWaitResult is the state at the end of the process, or when the time was over."""

    #: absent: not exited
    status: ExitStatus


class ProcessWriteParams(TypedDict):
    """ProcessWriteParams writes to a process's stdin."""

    processId: str

    #: may be empty; base64 in JSON
    chunk: bytes

    #: `writeId` is unique among the writes to the process, and not empty. A second write with the same `writeId` gets
    #: an answer, but is not written.
    writeId: str


class ProcessWriteResult(TypedDict):
    """ProcessWriteResult is the answer to process/write."""

    status: WriteStatus


class _ProcessWriteStdinParams(TypedDict):
    processHandle: str


class ProcessWriteStdinParams(_ProcessWriteStdinParams, total=False):
    """ProcessWriteStdinParams writes to stdin, then closes stdin, or does either."""

    deltaBase64: Optional[bytes]

    closeStdin: Optional[bool]


class ReadAccess(TypedDict):
    """readAccess is a member that older clients send. Newer ones leave it out, and mean the same."""

    #: fullAccess
    type: str


class _ReadEvent(TypedDict):
    seq: int

    #: since the Unix epoch
    atMs: int

    kind: ReadEventKind


class ReadEvent(_ReadEvent, total=False):
    """ReadEvent is an event of a process in an answer to process/read."""

    #: of exited, restarted and ready
    run: int

    #: of restarted and evicted, for people
    reason: str

    #: of exited
    status: ExitStatus


class _ReadOnlyPolicy(TypedDict):
    type: str


class ReadOnlyPolicy(_ReadOnlyPolicy, total=False):
    """readOnlyPolicy lets the command read everything, and write nothing."""

    networkAccess: bool

    access: Optional[ReadAccess]


class Ready(TypedDict, total=False):
    """Ready says when a run of a process is ready. Exactly one condition is set."""

    #: `line` is a regular expression of RE2, of at most 1 KiB and 2,000 compiled steps: the run is ready when it has
    #: written a matching line. A counted repeat {1000} multiplies the steps. Of a longer line only the first 4,096
    #: bytes count.
    line: Optional[str]

    #: of `line`; absent: any. A stream that the process does not have is refused
    stream: Optional[Stream]

    #: host:port accepts a connection
    tcp: Optional[str]

    #: a unix socket accepts a connection: file URI
    unix: Optional[str]

    #: a file exists: file URI
    file: Optional[str]

    #: this time has passed
    delayMs: Optional[int]

    #: the run has ended with exit code 0; not with the policy `permanent`
    exit: Optional[bool]

    #: a probe has succeeded; its Failures do not count
    probe: Optional[Probe]

    #: `timeoutMs` is how long a run may take to become ready. Then the server ends the run, and the run has failed.
    #: absent: 60,000; 0: no limit. Not for `delayMs`, nor for `exit`: there the process's own timeoutMs applies.
    timeoutMs: Optional[int]


class ReadyNotification(TypedDict):
    """ReadyNotification says the run has met its Ready condition."""

    processId: str

    seq: int

    run: int


class RefusedUpgrade(TypedDict):
    """RefusedUpgrade says why the present server was not replaced."""

    #: since the Unix epoch
    atMs: int

    #: for people
    reason: str


class Replacement(TypedDict):
    """Replacement says how a server took the place of another one."""

    #: since the Unix epoch: when the new server began to serve
    atMs: int

    #: `upgrade`, or for people how the old server ended, as in "killed by SIGKILL" and "exit code 2"
    reason: str

    #: how long no server served
    gapMs: int


class _Restart(TypedDict):
    #: `policy` is `temporary`, `transient` or `permanent`. A process ended by request is not run again.
    policy: str


class Restart(_Restart, total=False):
    """Restart says when a process is run again, in OTP's terms."""

    #: absent: as a `backoff` without members
    backoff: Optional[Backoff]

    #: absent: as an `intensity` without members
    intensity: Optional[Intensity]

    #: absent: never give up because of an end
    giveUp: Optional[GiveUp]

    #: `afterEnd`: process/restart runs the process again after its end, too. For as long as its session lives, the
    #: server keeps the process, with its log and all it was started with. process/setRestart does not change
    #: `afterEnd`.
    afterEnd: Optional[bool]


class _RestartedNotification(TypedDict):
    processId: str

    seq: int

    run: int

    #: for people: how the last run ended, or who asked
    reason: str

    #: since the end of the last run
    delayMs: int


class RestartedNotification(_RestartedNotification, total=False):
    """RestartedNotification comes between two runs: later notifications belong to `run`."""

    #: `stdinLostBytes` is how many accepted bytes of stdin no run has read. For a PTY, only bytes not yet in its
    #: terminal are counted.
    stdinLostBytes: int


class Retention(TypedDict, total=False):
    """Retention is how much of the newest output is kept, whoever has received it, and what happens when the owner has
    not received so much."""

    #: positive; absent: the server's default
    bytes: Optional[int]

    #: absent: block
    onFull: Optional[OnFull]

    #: `spoolBytes` is the cap of `spool`; absent: the most the server allows.
    spoolBytes: Optional[int]

    #: `holdMs` is how long, after each start, nothing is dropped before a viewer with ProcessSubscribeParams.Hold has
    #: come, in milliseconds. 1 to 60,000 (MaxHoldMs); absent: output is dropped as `onFull` says.
    holdMs: Optional[int]


class RunUser(TypedDict):
    """RunUser is the user of the system as whom a program runs."""

    #: as the start or the policy of the server names the user; may be a number, or uid:gid
    name: str

    uid: int

    gid: int


class Rusage(TypedDict):
    """Rusage is the resource usage of one run, including children waited for."""

    userMs: int

    systemMs: int

    #: of the largest process
    maxRssBytes: int


class _SandboxInfo(TypedDict):
    available: bool

    #: the ABI of `landlock`; 0: none
    landlock: int


class SandboxInfo(_SandboxInfo, total=False):
    """SandboxInfo says whether a server can confine programs, as its machine is."""

    #: which step fails, and what helps; for people. Absent if sandboxes are possible
    why: str

    #: `complete` or `oldProc`; later servers may have others. Empty: not available
    level: str

    #: protections that are missing in every sandbox; for people
    notes: List[str]


class _SandboxParams(TypedDict):
    permissions: Permissions

    #: send disabled; restricted-token and elevated mean nothing here, mxc is refused
    windowsSandboxLevel: str


class SandboxParams(_SandboxParams, total=False):
    """sandboxParams says what a program, or a call about files, may do. Section 4.9 of the protocol has an example."""

    #: `cwd` is where relative patterns begin; absent: the directory of the program. A call about files has no such
    #: default: if an entry depends on `cwd` or `workspaceRoots`, the call needs a `cwd`.
    cwd: Optional[str]

    #: the directories of project_roots, at most 1,024
    workspaceRoots: List[str]

    #: replaces `cwd` and `workspaceRoots`, also what it leaves out
    policyContext: Optional[PolicyContext]

    #: true is refused
    useLegacyLandlock: bool

    #: `userHomeDir`, `temporaryDirectories`, `sandboxOverride` (noOverride, escalatedSandboxWithRestrictions or
    #: bypassSandboxFirstAttempt) and `windowsSandboxProxySettingsMode` (reconcile or preserve) are checked, and have no
    #: effect.
    userHomeDir: Optional[str]

    temporaryDirectories: Optional[List[str]]

    sandboxOverride: str

    windowsSandboxProxySettingsMode: Optional[str]


class _ScreenCursor(TypedDict):
    #: from 0
    row: int

    #: from 0
    col: int

    visible: bool

    #: block, underline or bar; later servers may have others
    shape: str

    blink: bool


class ScreenCursor(_ScreenCursor, total=False):
    """ScreenCursor is the cursor of a screen."""

    #: "#rrggbb" if the program has set it (OSC 12)
    color: str


class _ScreenModes(TypedDict):
    #: arrow keys send ESC O A, not ESC [ A (DECCKM)
    applicationCursor: bool

    #: keys of the keypad send sequences (DECKPAM)
    applicationKeypad: bool

    #: pasted text comes between ESC [ 200~ and ESC [ 201~
    bracketedPaste: bool

    #: ESC [ I and ESC [ O tell of the focus
    focusEvents: bool

    #: which events are reported: none, x10, press, button (with moves while a button is held) or any
    mouse: str

    #: the whole screen has its colours swapped (DECSCNM)
    reverseVideo: bool


class ScreenModes(_ScreenModes, total=False):
    """ScreenModes are the modes of a terminal that say what the program expects as input, and how the screen looks."""

    #: of reports: default, utf8, sgr, urxvt or sgrPixels
    mouseEncoding: str


class ServerChangedNotification(TypedDict, total=False):
    """ServerChangedNotification is a piece of the state that a client watches: of the sessions that the client may
    observe, with their processes and groups. A piece is taken over in the order `anew`, `gone`, `sessions`."""

    #: `anew`: the state begins anew with this piece. Forget what earlier pieces have told.
    anew: bool

    #: `whole`: with this piece the state is whole, for the first time since `anew`.
    whole: bool

    #: `gone` are the ids of sessions that have ended.
    gone: List[str]

    #: `sessions` are those that are new, or in which something has changed.
    sessions: List[SessionChange]


class _ServerEvent(TypedDict):
    #: microseconds since the Unix epoch; no two events of a server have the same
    atUs: int

    kind: ServerEventKind

    #: "": of replaced
    sessionId: str


class ServerEvent(_ServerEvent, total=False):
    """ServerEvent is an event of a session, of a process, of a group or of the server."""

    #: at that time
    sessionName: str

    #: "": the event is about the session, or a group
    processId: str

    #: as in ProcessInfo
    instance: str

    #: of a group, or of the process
    groupId: str

    #: of started, ready, exited and restarted
    run: int

    #: of started; a long one is cut
    argv: List[str]

    #: of group: as in GroupInfo
    state: str

    #: of restarted, evicted, group and gone, for people; a long one is cut. Of replaced: as in Replacement
    reason: str

    #: of replaced: as in Replacement
    gapMs: int

    #: of exited
    status: ExitStatus


class ServerEventsParams(TypedDict, total=False):
    """ServerEventsParams asks for events of all sessions that the client may observe."""

    #: `afterUs` asks for events later than a time, in microseconds since the Unix epoch on the clock of the server: the
    #: `nextUs` of the last answer, to read on. 0 asks for all events that the server still has. absent asks for events
    #: from now on.
    afterUs: Optional[int]

    #: `waitMs` is how long the server waits for an event if there is none, in milliseconds. 0: the answer comes at
    #: once.
    waitMs: Optional[int]

    #: `instance`, if not empty, limits the answer to events of one process: those with this `instance`.
    instance: Optional[str]

    #: `last`, if not 0, limits the answer to the newest `last` events. With 0 the answer begins with the oldest event.
    last: Optional[int]


class ServerEventsResult(TypedDict):
    """ServerEventsResult has the events after `afterUs`, the oldest first. An answer need not have all of them."""

    events: List[ServerEvent]

    #: `nextUs` is the `afterUs` of the next request.
    nextUs: int

    #: `wholeUs` is a time after which no event of these sessions is forgotten. If `wholeUs` is later than `afterUs`,
    #: events between the two may be missing from `events`.
    wholeUs: int


class ServerInfo(TypedDict):
    """ServerInfo names the server program."""

    name: str

    version: str


class _ServerInfoResult(TypedDict):
    server: ServerInfo

    protocolVersion: str

    limits: Limits

    #: as in ProcessInfo
    containment: str

    #: since the Unix epoch
    startedAtMs: int

    connections: int

    sessions: int

    #: processes of the operating system, including ended ones with living descendants
    children: int

    #: of messages, requests and answers, beyond 64 KiB of each connection
    clientBytes: int

    #: of output, in memory, beyond 64 KiB of each process and of each program of the sister APIs
    heldBytes: int

    #: output on disk
    spooledBytes: int

    #: `fileCallsHung` is how many file calls have waited for their filesystem for more than 10 s. Each holds a thread,
    #: even after its connection has ended.
    fileCallsHung: int

    #: `goroutines` and `heapBytes` are the server's own use of the Go runtime. A number staying high at rest is a leak.
    goroutines: int

    #: live objects, and dead objects not collected yet
    heapBytes: int

    #: `panics`, `actorRestarts` and `actorsGivenUp` count failures of the server itself since its start. Each failure
    #: is in the server's log, with a stack.
    panics: int

    actorRestarts: int

    #: failed too often; or were connections, which resume
    actorsGivenUp: int


class ServerInfoResult(_ServerInfoResult, total=False):
    """ServerInfoResult is the state of a server: what it has and uses, for all identities together."""

    #: `sandbox` says whether the server can confine programs; absent: it could not find out yet.
    sandbox: SandboxInfo

    #: `holder` says whether programs outlive the server; absent: an older server, and they do not.
    holder: HolderInfo

    #: processes and threads that all programs together may have; absent: no limit
    childLimit: int

    #: absent: the server has no holder
    holderProcess: HolderProcess

    #: `notes`, for people, name what the server could not set up on this machine, and trouble with its audit log:
    #: starts may then fail with -32603 and advice.
    notes: List[str]


class ServerWatchParams(TypedDict, total=False):
    """ServerWatchParams begin, change or end the watch of this connection: a connection has one at most."""

    #: `everyMs` is how often the server looks at numbers, and sends a change of numbers, in milliseconds: 200
    #: (MinWatchMs) to 3,600,000 (MaxWatchMs). absent: 1,000. 0 ends the watch.
    everyMs: Optional[int]


class SessionAckParams(TypedDict):
    """SessionAckParams has the last seq processed by a client with capability ack, by process id. A seq lower than
    before is ignored."""

    processes: Dict[str, int]


class _SessionChange(TypedDict):
    sessionId: str

    #: since the Unix epoch
    createdAtMs: int

    #: everybody attached but the owner
    observers: int

    #: including closed processes not forgotten yet, and those that are being started
    processes: int

    #: `attached`, `detached` or `closing`
    state: str


class SessionChange(_SessionChange, total=False):
    """SessionChange is a session in which something has changed. A change is taken over in the order `forgotten`,
    `forgottenGroups`, `list`, `groups`: ids of forgotten processes and groups may be used again."""

    name: str

    #: that opened the session; "": the server asks for no credential
    identity: str

    keepRunning: bool

    #: Of a detached session. `detachedAtMs` is when it has lost its owner, and `left` how, in words for people; "": the
    #: owner has closed its connection. `endsAtMs` is when the session ends if nobody attaches; 0: it has no such time,
    #: or not yet, since a program runs. since the Unix epoch, like `endsAtMs`
    detachedAtMs: int

    left: str

    endsAtMs: int

    #: processes that are new or have changed, each as a whole
    list: List[ProcessInfoResult]

    #: groups that are new or have changed, each as a whole
    groups: List[GroupInfo]

    #: ids of processes that the session does not have any more
    forgotten: List[str]

    #: ids of groups that the session does not have any more
    forgottenGroups: List[str]


class SessionChangedNotification(TypedDict):
    """SessionChangedNotification says that process/list has another answer: the session has started a process for
    somebody else, or has forgotten a process. A notification stands for all such changes since the last."""


class SessionCloseParams(TypedDict, total=False):
    """SessionCloseParams ends a session and all its processes."""

    #: absent: the connection's own
    sessionId: Optional[str]


class _SessionDetails(TypedDict):
    sessionId: str

    #: since the Unix epoch
    createdAtMs: int

    #: everybody attached but the owner
    observers: int

    #: including closed processes not forgotten yet, and those that are being started
    processes: int

    #: `attached`, `detached` or `closing`
    state: str

    #: the first started first; without processes that are being started
    list: List[ProcessInfoResult]


class SessionDetails(_SessionDetails, total=False):
    """SessionDetails is a session with the state of its processes."""

    name: str

    #: that opened the session; "": the server asks for no credential
    identity: str

    keepRunning: bool

    #: Of a detached session. `detachedAtMs` is when it has lost its owner, and `left` how, in words for people; "": the
    #: owner has closed its connection. `endsAtMs` is when the session ends if nobody attaches; 0: it has no such time,
    #: or not yet, since a program runs. since the Unix epoch, like `endsAtMs`
    detachedAtMs: int

    left: str

    endsAtMs: int

    #: `list` is empty: the answer would have more than 8 MiB. Attach to the session, and send process/list
    listOmitted: bool


class _SessionDetailsResult(TypedDict):
    sessions: List[SessionDetails]


class SessionDetailsResult(_SessionDetailsResult, total=False):
    """SessionDetailsResult is SessionListResult for `info`."""

    #: `unanswered` are the names of the nodes of a cluster that did not answer: their sessions are left out.
    unanswered: List[str]


class SessionEvictedNotification(TypedDict):
    """SessionEvictedNotification is the last message on a connection whose session was taken over, or has ended."""

    reason: str


class _SessionExpiringNotification(TypedDict):
    #: from now
    inMs: int


class SessionExpiringNotification(_SessionExpiringNotification, total=False):
    """SessionExpiringNotification says the session will end. If the session lacks an owner, observers get the
    notification; if the session is too old or the server stops, every attached connection gets it."""

    #: for people
    reason: str


class _SessionInfoResult(TypedDict):
    sessionId: str

    #: since the Unix epoch
    createdAtMs: int

    #: has an owner
    attached: bool

    observers: int

    #: including closed processes not forgotten yet
    processes: int

    #: 0: no limit
    detachedTtlMs: int

    #: 0: no limit
    idleMs: int

    #: 0: no limit
    maxAgeMs: int


class SessionInfoResult(_SessionInfoResult, total=False):
    """SessionInfoResult describes the session of the asking connection."""

    name: str

    #: of the connection
    role: Role

    keepRunning: bool

    ephemeral: bool


class SessionListParams(TypedDict, total=False):
    """SessionListParams says how much to tell of each session."""

    detail: Optional[Detail]

    #: `here` leaves out the sessions of other nodes of the cluster.
    here: Optional[bool]


class _SessionListResult(TypedDict):
    sessions: List[SessionSummary]


class SessionListResult(_SessionListResult, total=False):
    """SessionListResult has the sessions that the client may observe, the oldest first."""

    #: `unanswered` are the names of the nodes of a cluster that did not answer: their sessions are left out.
    unanswered: List[str]


class SessionOptions(TypedDict, total=False):
    """SessionOptions set up a new session."""

    #: for listings; need not be unique
    name: Optional[str]

    #: `detachedTtlMs` is how long the session may be without an owner, in milliseconds. absent means the server's
    #: default; 0 means no limit, if the server allows it.
    detachedTtlMs: Optional[int]

    #: `keepRunning` stops the clock of `detachedTtlMs` while a process has not closed.
    keepRunning: Optional[bool]

    #: `ephemeral` ends the session with the connection of its owner, and keeps it out of lists. The members above and
    #: `keepRunning` then have no meaning, except for `name`.
    ephemeral: Optional[bool]

    #: `idleMs` is how long the session lives while no connection is attached and no process writes. `maxAgeMs` is how
    #: long the session lives at all. Both are in milliseconds. absent means the server's default; 0 means no limit, if
    #: the server allows it.
    idleMs: Optional[int]

    maxAgeMs: Optional[int]

    #: `maxChunkBytes` bounds the output in one process/output of this session, in bytes: 1,024 (MinChunk) to 131,072
    #: (MaxChunk). absent means the most.
    maxChunkBytes: Optional[int]


class _SessionProcesses(TypedDict):
    sessionId: str

    #: since the Unix epoch
    createdAtMs: int

    #: everybody attached but the owner
    observers: int

    #: including closed processes not forgotten yet, and those that are being started
    processes: int

    #: `attached`, `detached` or `closing`
    state: str

    #: the first started first; without processes that are being started
    list: List[ProcessInfo]


class SessionProcesses(_SessionProcesses, total=False):
    """SessionProcesses is a session with its processes."""

    name: str

    #: that opened the session; "": the server asks for no credential
    identity: str

    keepRunning: bool

    #: Of a detached session. `detachedAtMs` is when it has lost its owner, and `left` how, in words for people; "": the
    #: owner has closed its connection. `endsAtMs` is when the session ends if nobody attaches; 0: it has no such time,
    #: or not yet, since a program runs. since the Unix epoch, like `endsAtMs`
    detachedAtMs: int

    left: str

    endsAtMs: int

    #: `list` is empty: the answer would have more than 8 MiB. Attach to the session, and send process/list
    listOmitted: bool


class _SessionProcessesResult(TypedDict):
    sessions: List[SessionProcesses]


class SessionProcessesResult(_SessionProcessesResult, total=False):
    """SessionProcessesResult is SessionListResult for `processes`."""

    #: `unanswered` are the names of the nodes of a cluster that did not answer: their sessions are left out.
    unanswered: List[str]


class _SessionShareParams(TypedDict):
    access: Access


class SessionShareParams(_SessionShareParams, total=False):
    """SessionShareParams makes a token with which somebody else reaches the session."""

    #: 1 to the server's maximum (--max-share-time, a week); absent: an hour, or that maximum if it is less
    expiresInMs: Optional[int]

    #: for listings, at most 1,024 bytes; need not be unique
    name: Optional[str]


class _SessionShareResult(TypedDict):
    shareId: str

    #: a bearer token; the server has only its digest
    token: str

    #: since the Unix epoch
    expiresAtMs: int


class SessionShareResult(_SessionShareResult, total=False):
    """SessionShareResult has the only copy of the token."""

    access: Access


class SessionSharesResult(TypedDict):
    """SessionSharesResult has the shares of the session, the oldest first."""

    shares: List[ShareInfo]


class _SessionSummary(TypedDict):
    sessionId: str

    #: since the Unix epoch
    createdAtMs: int

    #: everybody attached but the owner
    observers: int

    #: including closed processes not forgotten yet, and those that are being started
    processes: int

    #: `attached`, `detached` or `closing`
    state: str


class SessionSummary(_SessionSummary, total=False):
    """SessionSummary describes a session for a client that need not be attached."""

    name: str

    #: that opened the session; "": the server asks for no credential
    identity: str

    keepRunning: bool

    #: Of a detached session. `detachedAtMs` is when it has lost its owner, and `left` how, in words for people; "": the
    #: owner has closed its connection. `endsAtMs` is when the session ends if nobody attaches; 0: it has no such time,
    #: or not yet, since a program runs. since the Unix epoch, like `endsAtMs`
    detachedAtMs: int

    left: str

    endsAtMs: int


class SessionUnshareParams(TypedDict):
    """SessionUnshareParams ends a share, and the connections of its guests."""

    shareId: str


class SessionUnshareResult(TypedDict):
    """SessionUnshareResult is the answer to session/unshare."""

    #: false: the session has no such share
    ended: bool


class SessionUpdateParams(TypedDict, total=False):
    """SessionUpdateParams changes the session of the connection. What is absent stays as it is."""

    name: Optional[str]

    #: as in SessionOptions
    detachedTtlMs: Optional[int]

    keepRunning: Optional[bool]

    #: `left` is how the owner is about to leave, in words for whoever comes next: the `left` of a SessionSummary until
    #: somebody attaches as owner. At most 1,024 bytes.
    left: Optional[str]

    #: `requestId` makes a request repeatable. A second request with the same id and method, for the same process or
    #: session, gets the answer of the first, and does nothing. At most 1,024 bytes; empty means none.
    requestId: Optional[str]


class _ShareInfo(TypedDict):
    shareId: str

    #: since the Unix epoch
    createdAtMs: int

    #: since the Unix epoch
    expiresAtMs: int

    #: connections that are attached with its token
    guests: int


class ShareInfo(_ShareInfo, total=False):
    """ShareInfo describes a share."""

    name: str

    access: Access


class Shell(TypedDict):
    """Shell is the user's shell on the server."""

    #: "bash"
    name: str

    #: "/bin/bash": a path, not a URI
    path: str


class ShellSnapshot(TypedDict):
    """`shellSnapshot` asks to run a command of a login shell with the state that the shell's startup files leave
    behind, and to run these files only once for each scope. (exec-server, capability shellSnapshotV2.)"""

    #: `scopeId` has 1 to 256 bytes. Starts of a session with the same `scopeId` share a capture, if they also agree in
    #: `shell`, cwd and envPolicy.
    scopeId: str

    #: bash, zsh or sh; its path is argv[0]
    shell: Shell


class Size(TypedDict):
    """Size is the size of a terminal in characters; neither field is zero."""

    rows: int

    cols: int


class SkillFiles(TypedDict):
    """SkillFiles are the files of a skill."""

    instructions: DiscoveredFile

    #: agents/openai.yaml beside SKILL.md
    metadata: Optional[DiscoveredFile]


class _Span(TypedDict):
    text: str


class Span(_Span, total=False):
    """Span is a part of a line with the same attributes. The texts of a line's spans, one after the other, are the
    line, perhaps with more blanks at its end."""

    #: `fg` and `bg` are colours: "0" to "255" of the palette, or "#rrggbb". Empty: the default. A colour of the palette
    #: that the program has redefined (OSC 4) is "#rrggbb", too.
    fg: str

    bg: str

    bold: bool

    faint: bool

    italic: bool

    #: of any style
    underline: bool

    blink: bool

    inverse: bool

    hidden: bool

    strike: bool

    overline: bool

    #: `underlineStyle` is double, curly, dotted or dashed. Empty: single, or no underline.
    underlineStyle: str

    #: as `fg`; empty: the colour of the text
    underlineColor: str

    #: the target of a hyperlink (OSC 8)
    link: str


class SpawnExitedNotification(TypedDict):
    """SpawnExitedNotification says a program has ended. Streamed output is not repeated."""

    processHandle: str

    #: 124: timed out; 128 + signal
    exitCode: int

    #: descendants still hold the output open
    outputDrainTimedOut: bool

    #: bytes other than UTF-8 become U+FFFD
    stdout: str

    stdoutCapReached: bool

    stderr: str

    stderrCapReached: bool


class _SpecialPath(TypedDict):
    kind: str


class SpecialPath(_SpecialPath, total=False):
    """specialPath is of one of these kinds. root: everything. project_roots (an old name is current_working_directory):
    each of the workspaceRoots, or `subpath` below each. slash_tmp: /tmp. tmpdir: the directory in TMPDIR of the
    program's environment, or nothing; / is refused. minimal: those of /bin, /sbin, /usr, /etc, /lib, /lib64, /nix/store
    and /run/current-system/sw that exist. unknown, with `path`: nothing; with deny it is refused."""

    path: Optional[str]

    #: relative, without .. at its start
    subpath: Optional[str]


class StartScreen(TypedDict, total=False):
    """StartScreen asks for a screen from the first byte on."""

    #: `scrollback` is how many lines the screen keeps after they have scrolled off. absent: 1,000 (DefaultScrollback).
    #: More than 10,000 (MaxScrollback) is 10,000.
    scrollback: Optional[int]

    #: `ifRoom` starts the process without a screen if the server has no room for a screen. False: the start is then
    #: refused.
    ifRoom: Optional[bool]


class TerminalSize(TypedDict):
    """TerminalSize is like Size, but zeros pass decoding: the methods report them in their own words."""

    rows: int

    cols: int


class TraceContext(TypedDict, total=False):
    """TraceContext is a place in a trace, as W3C Trace Context writes it: the member trace of a message has it."""

    #: such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    traceparent: Optional[str]

    #: of vendors; "": none
    tracestate: Optional[str]


class _Usage(TypedDict):
    of: UsageOf

    #: of `cpu` time, since the run began
    userMs: int

    systemMs: int


class Usage(_Usage, total=False):
    """Usage is the resource usage of a run, as counted by its cgroup, or of its program."""

    #: `memoryBytes` is what the memory controller counts. Without that controller `memoryBytes` is the sum of the
    #: resident memory of the processes, which counts shared pages once for each process. absent: unknown, as when the
    #: program has made cgroups of its own.
    memoryBytes: int

    #: processes and threads; absent: the pids controller is not delegated
    pids: int

    #: `cpuPressure`, `memoryPressure` and `ioPressure` are the percentages of the last 10 s during which some of the
    #: processes waited for the resource (PSI). Not in session/list.
    cpuPressure: float

    memoryPressure: float

    ioPressure: float


class _Viewer(TypedDict):
    role: Role

    #: bytes held for the viewer, because its connection is busy or unread
    lagBytes: int

    #: how long `lagBytes` has been above 0; 0: nothing is held
    lagMs: int


class Viewer(_Viewer, total=False):
    """Viewer is a connection receiving the output of a process."""

    #: as in ProcessSubscribeParams
    hold: bool


_Wait = TypedDict(
    "_Wait",
    {
        "for": "WaitFor",
        #: how long the process has waited
        "sinceMs": "int",
    },
)


class Wait(_Wait, total=False):
    """Wait is a reason for which a process waits."""

    #: time until the server acts
    inMs: int

    #: of `owner`: bytes the owner has not acknowledged
    bytes: int

    #: the limit that is used up: a flag of troupe serve, retention, spool-places or spool-failed
    limit: str

    #: for people
    reason: str


class _WorkspacePolicy(TypedDict):
    type: str


class WorkspacePolicy(_WorkspacePolicy, total=False):
    """workspacePolicy lets the command read everything, and write in its workspace, in `writableRoots`, and in TMPDIR
    and /tmp unless excluded."""

    writableRoots: List[str]

    networkAccess: bool

    excludeTmpdirEnvVar: bool

    excludeSlashTmp: bool

    readOnlyAccess: Optional[ReadAccess]


class Calls:
    """Calls has the method call with the types of each method of the wire."""

    @overload
    async def call(self, method: Literal["capabilities/discoverV2"], params: CapabilitiesDiscoverParams) -> CapabilitiesDiscoverResult: ...

    @overload
    async def call(self, method: Literal["capabilityRoots/discoverV1"], params: CapabilityRootsDiscoverParams) -> CapabilityRootsDiscoverResult: ...

    @overload
    async def call(self, method: Literal["cluster/drain"], params: ClusterDrainParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["cluster/nodes"], params: Optional[Empty] = None) -> ClusterNodesResult: ...

    @overload
    async def call(self, method: Literal["command/exec"], params: Union[FirstExecParams, CommandExecParams]) -> Union[CommandExecResult, FirstExecResult]: ...

    @overload
    async def call(self, method: Literal["command/exec/resize"], params: CommandExecResizeParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["command/exec/terminate"], params: Union[FirstExecTerminateParams, CommandExecTerminateParams]) -> Union[Empty, FirstExecTerminateResult]: ...

    @overload
    async def call(self, method: Literal["command/exec/write"], params: Union[FirstExecWriteParams, CommandExecWriteParams]) -> Union[Empty, FirstExecWriteResult]: ...

    @overload
    async def call(self, method: Literal["environment/info"], params: Optional[NoParams] = None) -> EnvironmentInfo: ...

    @overload
    async def call(self, method: Literal["environment/status"], params: Optional[Empty] = None) -> EnvironmentStatusResult: ...

    @overload
    async def call(self, method: Literal["environmentConfig/read"], params: EnvironmentConfigReadParams) -> EnvironmentConfigReadResult: ...

    @overload
    async def call(self, method: Literal["fs/canonicalize"], params: FsCanonicalizeParams) -> FsCanonicalizeResult: ...

    @overload
    async def call(self, method: Literal["fs/close"], params: FsCloseParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/copy"], params: FsCopyParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/createDirectory"], params: FsCreateDirectoryParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/getMetadata"], params: FsGetMetadataParams) -> Union[FsGetMetadataResult, FsAppMetadataResult]: ...

    @overload
    async def call(self, method: Literal["fs/list"], params: FsListParams) -> FsListResult: ...

    @overload
    async def call(self, method: Literal["fs/open"], params: FsOpenParams) -> FsOpenResult: ...

    @overload
    async def call(self, method: Literal["fs/readBlock"], params: FsReadBlockParams) -> FsReadBlockResult: ...

    @overload
    async def call(self, method: Literal["fs/readDirectory"], params: FsReadDirectoryParams) -> FsReadDirectoryResult: ...

    @overload
    async def call(self, method: Literal["fs/readFile"], params: FsReadFileParams) -> FsReadFileResult: ...

    @overload
    async def call(self, method: Literal["fs/remove"], params: FsRemoveParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/rename"], params: FsRenameParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/setMetadata"], params: FsSetMetadataParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/stat"], params: FsStatParams) -> FsEntry: ...

    @overload
    async def call(self, method: Literal["fs/symlink"], params: FsSymlinkParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/unwatch"], params: FsUnwatchParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/walk"], params: FsWalkParams) -> FsWalkResult: ...

    @overload
    async def call(self, method: Literal["fs/watch"], params: FsWatchParams) -> FsWatchResult: ...

    @overload
    async def call(self, method: Literal["fs/watchMissing"], params: FsWatchMissingParams) -> FsWatchMissingResult: ...

    @overload
    async def call(self, method: Literal["fs/writeBlock"], params: FsWriteBlockParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["fs/writeFile"], params: FsWriteFileParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["group/list"], params: Optional[Empty] = None) -> GroupListResult: ...

    @overload
    async def call(self, method: Literal["group/start"], params: GroupStartParams) -> GroupStartResult: ...

    @overload
    async def call(self, method: Literal["group/stop"], params: GroupStopParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["http/request"], params: HTTPRequestParams) -> HTTPRequestResult: ...

    @overload
    async def call(self, method: Literal["initialize"], params: Union[InitializeParams, ClientInfoParams]) -> InitializeResult: ...

    @overload
    async def call(self, method: Literal["process/closeStdin"], params: ProcessCloseStdinParams) -> Union[Empty, OtherRun]: ...

    @overload
    async def call(self, method: Literal["process/info"], params: ProcessInfoParams) -> ProcessInfoResult: ...

    @overload
    async def call(self, method: Literal["process/kill"], params: ProcessKillParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["process/list"], params: Optional[ProcessListParams] = None) -> ProcessListResult: ...

    @overload
    async def call(self, method: Literal["process/read"], params: ProcessReadParams) -> ProcessReadResult: ...

    @overload
    async def call(self, method: Literal["process/resize"], params: ProcessResizeParams) -> Union[Empty, OtherRun]: ...

    @overload
    async def call(self, method: Literal["process/resizePty"], params: ProcessResizePtyParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["process/restart"], params: ProcessRestartParams) -> Union[Empty, OtherRun]: ...

    @overload
    async def call(self, method: Literal["process/screen"], params: ProcessScreenParams) -> ProcessScreenResult: ...

    @overload
    async def call(self, method: Literal["process/setRestart"], params: ProcessSetRestartParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["process/signal"], params: ProcessSignalParams) -> Union[Empty, OtherRun]: ...

    @overload
    async def call(self, method: Literal["process/spawn"], params: ProcessSpawnParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["process/start"], params: ProcessStartParams) -> ProcessStartResult: ...

    @overload
    async def call(self, method: Literal["process/subscribe"], params: ProcessSubscribeParams) -> ProcessInfo: ...

    @overload
    async def call(self, method: Literal["process/terminate"], params: ProcessTerminateParams) -> Union[ProcessTerminateResult, OtherRun]: ...

    @overload
    async def call(self, method: Literal["process/wait"], params: ProcessWaitParams) -> ProcessWaitResult: ...

    @overload
    async def call(self, method: Literal["process/write"], params: ProcessWriteParams) -> ProcessWriteResult: ...

    @overload
    async def call(self, method: Literal["process/writeStdin"], params: ProcessWriteStdinParams) -> Empty: ...

    @overload
    async def call(self, method: Literal["server/events"], params: Optional[ServerEventsParams] = None) -> ServerEventsResult: ...

    @overload
    async def call(self, method: Literal["server/info"], params: Optional[Empty] = None) -> Union[ServerInfoResult, AboutServer]: ...

    @overload
    async def call(self, method: Literal["server/watch"], params: Optional[ServerWatchParams] = None) -> Empty: ...

    @overload
    async def call(self, method: Literal["session/close"], params: Optional[SessionCloseParams] = None) -> Empty: ...

    @overload
    async def call(self, method: Literal["session/info"], params: Optional[Empty] = None) -> SessionInfoResult: ...

    @overload
    async def call(self, method: Literal["session/list"], params: Optional[SessionListParams] = None) -> Union[SessionListResult, SessionProcessesResult, SessionDetailsResult]: ...

    @overload
    async def call(self, method: Literal["session/share"], params: SessionShareParams) -> SessionShareResult: ...

    @overload
    async def call(self, method: Literal["session/shares"], params: Optional[Empty] = None) -> SessionSharesResult: ...

    @overload
    async def call(self, method: Literal["session/unshare"], params: SessionUnshareParams) -> SessionUnshareResult: ...

    @overload
    async def call(self, method: Literal["session/update"], params: Optional[SessionUpdateParams] = None) -> Empty: ...

    async def call(self, method: str, params: Any = None) -> Any:
        """Sends a request with a method of the wire, and waits for the result, over any number of cuts."""
        return await self.request(method, params)

    async def request(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Is call for a method of a newer server, without types."""
        raise NotImplementedError


# The members of results that are bytes, by method, as paths: * is each element of a list.
RESULTS: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    "fs/list": (("entries", "*", "nameBase64",),),
    "fs/readBlock": (("chunk",),),
    "fs/readFile": (("dataBase64",),),
    "fs/stat": (("nameBase64",),),
    "http/request": (("bodyBase64",),),
    "process/read": (("chunks", "*", "chunk",),),
    "process/screen": (("restore",),),
}

# The members of notifications that are bytes, by method.
NOTIFICATIONS: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    "command/exec/outputDelta": (("deltaBase64",), ("chunk",),),
    "http/request/bodyDelta": (("deltaBase64",),),
    "process/output": (("chunk",),),
    "process/outputDelta": (("deltaBase64",),),
}
