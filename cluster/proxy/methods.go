package proxy

import (
	"crypto/rand"
	"encoding/json"
	"reflect"

	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A method says how a Request travels.
type method struct {
	name   string
	result func() any    // a pointer for the answer
	reply  func(any) any // the Result of the Reply, from the pointer
	empty  bool          // the request has no params on the wire
}

// of returns a method whose result is an R.
func of[R any](name string) method {
	return method{name: name, result: func() any { return new(R) }, reply: func(r any) any { return *r.(*R) }}
}

// asking returns a method without params.
func asking[R any](name string) method {
	m := of[R](name)
	m.empty = true
	return m
}

// ofSession are the methods of a session, by the type of the Params of a Request. Starts are not among them.
var ofSession = map[reflect.Type]method{
	reflect.TypeFor[protocol.GroupStopParams]():      of[protocol.Empty](protocol.MethodGroupStop),
	reflect.TypeFor[protocol.SessionCloseParams]():   of[protocol.Empty](protocol.MethodSessionClose),
	reflect.TypeFor[protocol.SessionUpdateParams]():  of[protocol.Empty](protocol.MethodSessionUpdate),
	reflect.TypeFor[protocol.SessionShareParams]():   of[protocol.SessionShareResult](protocol.MethodSessionShare),
	reflect.TypeFor[protocol.SessionUnshareParams](): of[protocol.SessionUnshareResult](protocol.MethodSessionUnshare),
	reflect.TypeFor[message.SharesRequest]():         asking[protocol.SessionSharesResult](protocol.MethodSessionShares),
	reflect.TypeFor[message.SessionInfoRequest]():    asking[protocol.SessionInfoResult](protocol.MethodSessionInfo),
	reflect.TypeFor[message.GroupListRequest]():      asking[protocol.GroupListResult](protocol.MethodGroupList),
}

// ofProcess are the methods of a process.
var ofProcess = map[reflect.Type]method{
	reflect.TypeFor[protocol.ProcessReadParams]():       of[protocol.ProcessReadResult](protocol.MethodProcessRead),
	reflect.TypeFor[protocol.ProcessWriteParams]():      of[protocol.ProcessWriteResult](protocol.MethodProcessWrite),
	reflect.TypeFor[protocol.ProcessSignalParams]():     of[protocol.Empty](protocol.MethodProcessSignal),
	reflect.TypeFor[protocol.ProcessTerminateParams]():  of[protocol.ProcessTerminateResult](protocol.MethodProcessTerminate),
	reflect.TypeFor[protocol.ProcessCloseStdinParams](): of[protocol.Empty](protocol.MethodProcessCloseStdin),
	reflect.TypeFor[protocol.ProcessResizeParams]():     of[protocol.Empty](protocol.MethodProcessResize),
	reflect.TypeFor[protocol.ProcessWaitParams]():       of[protocol.ProcessWaitResult](protocol.MethodProcessWait),
	reflect.TypeFor[protocol.ProcessRestartParams]():    of[protocol.Empty](protocol.MethodProcessRestart),
	reflect.TypeFor[protocol.ProcessSetRestartParams](): of[protocol.Empty](protocol.MethodProcessSetRestart),
	reflect.TypeFor[protocol.ProcessInfoParams]():       of[protocol.ProcessInfoResult](protocol.MethodProcessInfo),
	reflect.TypeFor[protocol.ProcessScreenParams]():     of[protocol.ProcessScreenResult](protocol.MethodProcessScreen),
}

// mayFind returns m for a request about a certain run: its result may be an OtherRun.
func (m method) mayFind(params any) method {
	if of, ok := params.(interface{ ForRun() uint64 }); !ok || of.ForRun() == 0 {
		return m
	}
	as := m.result
	m.result = func() any { return new(json.RawMessage) }
	m.reply = func(r any) any {
		raw := *r.(*json.RawMessage)
		var other struct {
			Applied *bool
			Run     int
		}
		if json.Unmarshal(raw, &other) == nil && other.Applied != nil {
			return protocol.OtherRun{Applied: *other.Applied, Run: other.Run}
		}
		result := as()
		_ = json.Unmarshal(raw, result) // the client has decoded it
		return reflect.ValueOf(result).Elem().Interface()
	}
	return m
}

// filled returns params with the id of the process, unless process is "", and with a random id by which the node knows a repeat of the
// request, where the host has left these members empty.
func filled(params any, process string) any {
	v := reflect.New(reflect.TypeOf(params)).Elem()
	if v.Kind() != reflect.Struct {
		return params
	}
	v.Set(reflect.ValueOf(params))
	fill := func(field, value string) {
		if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String && f.String() == "" {
			f.SetString(value)
		}
	}
	if process != "" {
		fill("ProcessID", process)
	}
	fill("RequestID", rand.Text())
	fill("StartToken", rand.Text())
	return v.Interface()
}
