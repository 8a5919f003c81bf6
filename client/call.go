package client

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Call sends a request with any method, and waits for the answer. The other methods of a Client cover
// almost every method of the wire: Call is for the rest, and for methods of newer servers.
//
// params is a value of a type in package protocol, or a value for json.Marshal; nil sends no params. Params
// with bytes, such as the content of a file, must be of a type in package protocol. Call
// stores the result in the value to which result points, a value of a type in package protocol or for
// json.Unmarshal; nil drops the result.
//
// If the connection breaks before the answer, the client sends the request again on the next connection.
// For a request that changes something, set a requestId (protocol.Repeatable), so that the server executes
// the request once. Methods about file handles, http/request and the sister APIs concern a single
// connection: after a cut, the server no longer knows what they name.
//
// If the server refuses, the error wraps a *protocol.Error.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	if params != nil && !ofWire(reflect.TypeOf(params)) {
		raw, err := json.Marshal(params)
		if err != nil {
			return errorf("%s: params: %w", method, err)
		}
		params = json.RawMessage(raw)
	}
	if result == nil || ofWire(reflect.TypeOf(result)) {
		return c.call(ctx, method, params, result)
	}
	var raw json.RawMessage
	if err := c.call(ctx, method, params, &raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return errorf("%s: result: %w", method, err)
	}
	return nil
}

// ofWire reports whether the codecs of package protocol encode values of type t themselves.
func ofWire(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[json.RawMessage]() || t.PkgPath() == reflect.TypeFor[protocol.Empty]().PkgPath()
}
