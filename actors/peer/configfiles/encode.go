package configfiles

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// encoder writes TOML in the form of the peer: in each table the plain values first, then arrays of
// tables, then tables. A table that has only tables gets no header. The keys are sorted, because a map
// does not keep the order of the file.
type encoder struct {
	text strings.Builder
	max  int
}

// encode returns a table as TOML. Not ok: it has more than max bytes.
func encode(table map[string]any, max int) (text string, ok bool) {
	e := &encoder{max: max}
	e.table(nil, table, "")
	return e.text.String(), !e.full()
}

func (e *encoder) full() bool { return e.text.Len() > e.max }

// table writes a table with the brackets of its header: "[" or "[["; empty: the root.
func (e *encoder) table(path []string, table map[string]any, brackets string) {
	var plain, arrays, tables []string
	for _, key := range slices.Sorted(maps.Keys(table)) {
		switch value := table[key].(type) {
		case map[string]any:
			tables = append(tables, key)
		case []any:
			if ofTables(value) {
				arrays = append(arrays, key)
			} else {
				plain = append(plain, key)
			}
		default:
			plain = append(plain, key)
		}
	}
	if brackets == "[[" || brackets == "[" && (len(plain) > 0 || len(table) == 0) {
		if e.text.Len() > 0 {
			e.text.WriteByte('\n')
		}
		e.text.WriteString(brackets)
		for i, key := range path {
			if i > 0 {
				e.text.WriteByte('.')
			}
			e.text.WriteString(keyText(key))
		}
		e.text.WriteString(strings.ReplaceAll(brackets, "[", "]") + "\n")
	}
	for _, key := range plain {
		if e.full() {
			return
		}
		e.text.WriteString(keyText(key) + " = ")
		e.value(table[key])
		e.text.WriteByte('\n')
	}
	for _, key := range arrays {
		for _, entry := range table[key].([]any) {
			if e.full() {
				return
			}
			e.table(append(slices.Clone(path), key), entry.(map[string]any), "[[")
		}
	}
	for _, key := range tables {
		if e.full() {
			return
		}
		e.table(append(slices.Clone(path), key), table[key].(map[string]any), "[")
	}
}

// ofTables reports whether an array has tables, and nothing else.
func ofTables(array []any) bool {
	return len(array) > 0 && !slices.ContainsFunc(array, func(v any) bool {
		_, ok := v.(map[string]any)
		return !ok
	})
}

// value writes a value in a line.
func (e *encoder) value(value any) {
	switch v := value.(type) {
	case string:
		e.text.WriteString(stringText(v))
	case float64:
		e.text.WriteString(floatText(v))
	case time.Time:
		e.text.WriteString(v.Format(time.RFC3339Nano))
	case []any:
		e.text.WriteByte('[')
		for i, entry := range v {
			if e.full() {
				return
			}
			if i > 0 {
				e.text.WriteString(", ")
			}
			e.value(entry)
		}
		e.text.WriteByte(']')
	case map[string]any:
		e.text.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if e.full() {
				return
			}
			e.text.WriteString([]string{" ", ", "}[min(i, 1)] + keyText(key) + " = ")
			e.value(v[key])
		}
		e.text.WriteString([]string{"}", " }"}[min(len(v), 1)])
	default: // whole numbers, booleans, and times without a zone
		fmt.Fprint(&e.text, v)
	}
}

func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return []string{"inf", "-inf"}[min(1, int(math.Float64bits(f)>>63))]
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func keyText(key string) string {
	bare := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	})
	switch {
	case bare:
		return key
	case !strings.ContainsFunc(key, isControl) && strings.ContainsAny(key, `"\`) && !strings.ContainsAny(key, "'\n"):
		return "'" + key + "'"
	}
	return quoted(key)
}

// isControl reports whether TOML demands an escape for r. A tab and the end of a line have their own rules.
func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == 0x7f }

// stringText returns a string in the form with the fewest escapes.
func stringText(s string) string {
	control, escapes := strings.ContainsFunc(s, isControl), strings.Contains(s, `\`)
	lines := strings.Contains(s, "\n")
	start := []string{"", "\n"}[min(1, strings.Count(s, "\n"))]
	switch {
	case control:
	case !escapes && !lines && !strings.Contains(s, `"`):
		return `"` + s + `"`
	case !lines && !strings.Contains(s, "'"):
		return "'" + s + "'"
	case !escapes && !strings.Contains(s, `"""`):
		return `"""` + start + s + `"""`
	case !strings.Contains(s, "'''"):
		return "'''" + start + s + "'''"
	}
	return quoted(s)
}

// quoted returns a string with escapes.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\b':
			b.WriteString(`\b`)
		case '\t':
			b.WriteString(`\t`)
		case '\n':
			b.WriteString(`\n`)
		case '\f':
			b.WriteString(`\f`)
		case '\r':
			b.WriteString(`\r`)
		default:
			if isControl(r) {
				fmt.Fprintf(&b, `\u%04X`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
