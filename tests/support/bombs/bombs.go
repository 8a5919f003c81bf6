// Package bombs makes params for tests: small on the wire and large in memory.
package bombs

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Of returns params of the type of: a large value of each member, by the name of the member. The large member
// has n elements, members or bytes, and all other members are small.
func Of(of reflect.Type, n int) map[string]any {
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

// with returns params with the member name set to value. Params that are no object stay as they are.
func with(params any, name string, value any) any {
	all, ok := params.(map[string]any)
	if ok {
		all[name] = value
	}
	return params
}

// list returns n times element.
func list(element any, n int) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = element
	}
	return l
}

// largeOf returns values of a type by the path of their large part, which has n elements, members or bytes.
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
		for inner, value := range Of(of, n) {
			found["."+inner] = value
		}
	}
	return found
}

// smallest returns the smallest value that the type allows.
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
