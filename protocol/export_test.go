package protocol

// RawMembers has the types of the members that package protocol keeps undecoded, by the type and name of the member. A member
// without a type must be absent or null. Nil: any value.
var RawMembers = map[string][]any{
	"ProcessStartParams.sandbox":           {sandboxParams{}},
	"Confinement.sandbox":                  {sandboxParams{}},
	"CommandExecParams.sandboxPolicy":      {dangerPolicy{}, readOnlyPolicy{}, externalPolicy{}, workspacePolicy{}},
	"CommandExecParams.permissionProfile":  {""},
	"CommandExecParams.sandbox":            {},
	"ProcessStartParams.managedNetwork":    {},
	"ProcessStartParams.networkProxy":      {},
	"ProcessStartParams.sandboxPolicy":     {},
	"ProcessStartParams.permissionProfile": {},
	"NoSandbox.sandbox":                    {},
	"NoSandbox.sandboxPolicy":              {},
	"NoSandbox.permissionProfile":          {},
	"Error.data":                           {details{}},
}
