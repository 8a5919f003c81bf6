package connection

import (
	"reflect"

	"github.com/b6f6fdd7/troupe/protocol"
)

// footprint is about how much memory a value of the wire takes, in bytes. Lists and maps of small
// values take far more than they do in a message.
func footprint(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case protocol.ProcessWriteParams: // the most frequent of all
		return len(v.ProcessID) + len(v.WriteID) + len(v.Chunk)
	case protocol.ProcessReadParams:
		return len(v.ProcessID)
	}
	value := reflect.ValueOf(v)
	return int(value.Type().Size()) + behind(value)
}

// behind is the memory that a value refers to, in bytes.
func behind(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = int(v.Elem().Type().Size()) + behind(v.Elem())
		}
	case reflect.Slice:
		element := v.Type().Elem()
		n = v.Len() * int(element.Size())
		if !flat(element.Kind()) {
			for i := range v.Len() {
				n += behind(v.Index(i))
			}
		}
	case reflect.Map:
		n = v.Len() * int(v.Type().Key().Size()+v.Type().Elem().Size()) * 3 / 2 // a map is never full
		for i := v.MapRange(); i.Next(); {
			n += behind(i.Key()) + behind(i.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += behind(v.Field(i))
		}
	}
	return n
}

// flat reports whether values of a kind refer to nothing.
func flat(k reflect.Kind) bool { return reflect.Bool <= k && k <= reflect.Complex128 }
