package protocol

// ErrorKind says which error an Error is, for programs: a client branches on the kind, never on a text. Section 22.1 of
// PROTOCOL.md has the list. A client treats a kind that it does not know like the code of the error.
type ErrorKind string

// Errors of a request as such.
const (
	KindMessage      ErrorKind = "message"      // the message cannot be read
	KindParams       ErrorKind = "params"       // the params are wrong: the same request will never succeed
	KindMethod       ErrorKind = "method"       // the server has no such method
	KindOff          ErrorKind = "off"          // the operator of the server has turned this off
	KindUnsupported  ErrorKind = "unsupported"  // this server or its system cannot do this
	KindOrder        ErrorKind = "order"        // not in this state of the connection: before initialize, or twice
	KindRole         ErrorKind = "role"         // the role of the connection may not send this
	KindUnauthorized ErrorKind = "unauthorized" // the credential is missing or wrong
	KindPolicy       ErrorKind = "policy"       // the policy of the operator refuses this, or its users file refuses calls about files
	KindLimit        ErrorKind = "limit"        // a limit is reached; data may name it
)

// Errors about names.
const (
	KindUnknownSession ErrorKind = "unknownSession" // there is no such session, or it has ended
	KindUnknownProcess ErrorKind = "unknownProcess" // there is no such process, or it is forgotten
	KindUnknownGroup   ErrorKind = "unknownGroup"   // there is no such group, or it is forgotten
	KindUnknownHandle  ErrorKind = "unknownHandle"  // there is no such handle of a file
	KindExists         ErrorKind = "exists"         // the id is taken, or the file exists
	KindAttached       ErrorKind = "attached"       // the session has an owner on another connection
	KindEvicted        ErrorKind = "evicted"        // the connection has lost its session
	KindEnded          ErrorKind = "ended"          // the process, its session or the server is ending or has ended
)

// Errors about a state of a process.
const (
	KindNoTTY       ErrorKind = "noTTY"       // the process has no PTY
	KindStdinClosed ErrorKind = "stdinClosed" // stdin is closed, or was never open
	KindNoRestart   ErrorKind = "noRestart"   // the process was started without restart
	KindHeld        ErrorKind = "held"        // the process waits for its group
	KindSurvivors   ErrorKind = "survivors"   // processes live on after SIGKILL, or the server could not look
)

// Errors of starts and files.
const (
	KindNoProgram     ErrorKind = "noProgram"     // there is no such program, or no such interpreter of a script
	KindNotExecutable ErrorKind = "notExecutable" // the file is no program
	KindNoDirectory   ErrorKind = "noDirectory"   // the working directory does not exist, or is no directory
	KindSandbox       ErrorKind = "sandbox"       // the server cannot confine the program, or the call, as its sandbox says
	KindUser          ErrorKind = "user"          // the program may not or cannot run as that user
	KindNotFound      ErrorKind = "notFound"      // there is no such file or directory
	KindPermission    ErrorKind = "permission"    // the operating system refuses permission
	KindNotDirectory  ErrorKind = "notDirectory"  // the path, or a part of it, is no directory
	KindNotFile       ErrorKind = "notFile"       // the path is a directory or a device, where a regular file is needed
	KindNotEmpty      ErrorKind = "notEmpty"      // the directory is not empty
	KindTooLarge      ErrorKind = "tooLarge"      // the file, the directory or the answer is too large
	KindNoSpace       ErrorKind = "noSpace"       // the disk or a quota is full
	KindReadOnly      ErrorKind = "readOnly"      // the filesystem is read-only
	KindLink          ErrorKind = "link"          // the path has a symbolic link where none may be, or too many
	KindHangs         ErrorKind = "hangs"         // the filesystem does not answer
)

// Errors outside the request.
const (
	KindHTTP     ErrorKind = "http"     // an HTTP request failed
	KindBusy     ErrorKind = "busy"     // the server has too much to do or too little memory: try again
	KindSystem   ErrorKind = "system"   // the operating system refused for another reason
	KindInternal ErrorKind = "internal" // a fault of the server: the client does not know whether the request was done
)
