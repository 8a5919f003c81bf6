package actors

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/vmihailenco/msgpack/v5"
)

// typesOf are the types of the params of a method as a client sends them.
func typesOf(m *method) []any {
	if m.name == protocol.MethodInitialize {
		return append(m.params, protocol.ClientInfoParams{})
	}
	return m.params
}

// Large returns makers of params of size n, each with another of its members large.
func Large(name string) (all []func(n int) string) {
	for _, of := range typesOf(methods[name]) {
		for where := range bombs(reflect.TypeOf(of), 0) {
			all = append(all, func(n int) string {
				text, err := json.Marshal(bombs(reflect.TypeOf(of), n)[where])
				if err != nil {
					panic(err)
				}
				return string(text)
			})
		}
	}
	return all
}

// What a message becomes in memory is bounded by what it has on the wire, whichever of its
// members is a list or a map of the smallest values that there are, and whatever is refused.
func TestMessagesDoNotGrowInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("memory is measured without -short")
	}
	tested := 0
	for method, entry := range methods {
		for _, of := range typesOf(entry) {
			for where, params := range bombs(reflect.TypeOf(of), bombSize) {
				tested++
				message := map[string]any{"id": 1, "method": method, "params": params}
				asJSON, err := json.Marshal(message)
				if err != nil {
					t.Fatal(err)
				}
				asMsgpack, err := msgpack.Marshal(message)
				if err != nil {
					t.Fatal(err)
				}
				wantSmall(t, fmt.Sprintf("%s %s as JSON", method, where), protocol.JSON, asJSON)
				wantSmall(t, fmt.Sprintf("%s %s as msgpack", method, where), protocol.Msgpack, asMsgpack)
			}
		}
	}
	if tested < 50 {
		t.Errorf("%d messages: this tests little", tested)
	}
}

func wantSmall(t *testing.T, what string, codec protocol.Codec, frame []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := decode(codec, frame)
	runtime.ReadMemStats(&after)
	// All that was allocated, garbage included: far more than there was at any time.
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(10*len(frame)+12<<20); got > most {
		t.Errorf("%s: decoding %d bytes allocated %d, %.1f times as much", what, len(frame), got, float64(got)/float64(len(frame)))
	}
	runtime.KeepAlive(in)
}

// bombs are params of type of, each with another of its members large: it has n elements, members or
// bytes; by the name of that member.
func bombs(of reflect.Type, n int) map[string]any {
	found := map[string]any{"unknown": with(smallest(of), "unknown", list(nil, n))}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		for inner, value := range largeOf(f.Type, n) {
			found[name+inner] = with(smallest(of), name, value)
		}
	}
	return found
}

func with(params any, name string, value any) any {
	all, ok := params.(map[string]any)
	if ok {
		all[name] = value
	}
	return params
}

const bombSize = 1<<17 - 1

func list(element any, n int) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = element
	}
	return l
}

// largeOf are values of a type with n elements, members or bytes, by what of it is large.
func largeOf(of reflect.Type, n int) map[string]any {
	found := make(map[string]any)
	switch of.Kind() {
	case reflect.String:
		found[""] = strings.Repeat("a", n)
	case reflect.Pointer:
		return largeOf(of.Elem(), n)
	case reflect.Slice:
		if of == reflect.TypeFor[json.RawMessage]() {
			found[""] = list(nil, 6*n) // in JSON each takes five bytes
		}
		if of.Elem().Kind() == reflect.Uint8 {
			return found
		}
		found["[]"] = list(smallest(of.Elem()), n)
		for inner, value := range largeOf(of.Elem(), n) {
			found["[0]"+inner] = []any{value}
		}
	case reflect.Map:
		all := make(map[string]any)
		for i := range n {
			all[strconv.FormatInt(int64(i), 36)] = smallest(of.Elem())
		}
		found["{}"] = all
	case reflect.Struct:
		for inner, value := range bombs(of, n) {
			found["."+inner] = value
		}
	}
	return found
}

// smallest is a value of a type with as little in it as its type allows.
func smallest(of reflect.Type) any {
	switch of.Kind() {
	case reflect.Pointer:
		return smallest(of.Elem())
	case reflect.String:
		return ""
	case reflect.Bool:
		return false
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 && of != reflect.TypeFor[json.RawMessage]() {
			return ""
		}
		return []any{}
	case reflect.Map:
		return map[string]any{}
	case reflect.Struct:
		all := make(map[string]any)
		for _, f := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Tag.Get("wire") == "required" {
				all[name] = smallest(f.Type)
			}
		}
		return all
	}
	return 0
}
