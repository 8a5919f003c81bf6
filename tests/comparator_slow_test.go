//go:build slow

package tests

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestReplaySeesEveryChange(t *testing.T) {
	t.Parallel()
	changes := map[string]func(obj) bool{
		"code":   changeCode,
		"text":   changeText,
		"value":  changeValue,
		"member": dropMember,
		"type":   changeType,
		"seq":    changeSeq,
		"bytes":  changeBytes,
	}
	applied := map[string]int{}
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, name := range transcripts(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				lines := readTranscript(t, name)
				for i, l := range lines {
					if l.Dir != "s2c" || l.Kind != "" {
						continue
					}
					for kind, change := range changes {
						m := decode(l.Msg)
						if !change(m) {
							continue
						}
						changed := slices.Clone(lines)
						changed[i].Msg = []byte(jsonText(m))
						// A short timeout makes no assertion: it can only help to find the change.
						found := playback(t, name, changed, nil, 100*time.Millisecond)
						if !slices.ContainsFunc(found, func(m string) bool { return !peersOwnFault(m) }) {
							t.Errorf("line %d, %s changed to %s: not seen", i+1, kind, changed[i].Msg)
						}
						mu.Lock()
						applied[kind]++
						mu.Unlock()
					}
				}
			})
		}
	})
	for kind := range changes {
		if applied[kind] < 10 {
			t.Errorf("%s was changed %d times only", kind, applied[kind])
		}
	}
	t.Log(applied)
}

// membersOf returns the members of the result, or of the params of a notification.
func membersOf(m obj) obj {
	if result := resultOf(m); result != nil {
		return result
	}
	return paramsOf(m)
}

func changeCode(m obj) bool {
	e := errorOf(m)
	if e != nil {
		e["code"] = num(e["code"]) - 1
	}
	return e != nil
}

// changeText changes only a text on which a client may depend: other texts are free.
func changeText(m obj) bool {
	e := errorOf(m)
	if e == nil || !slices.ContainsFunc(dependable, func(d *regexp.Regexp) bool {
		return d.MatchString(e["message"].(string))
	}) {
		return false
	}
	e["message"] = "sorry: " + e["message"].(string)
	return true
}

// changeValue changes the first plain value that the replay compares.
func changeValue(m obj) bool {
	members := membersOf(m)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if isOfTheServer("", members, name) || name == "seq" || name == "chunk" {
			continue
		}
		switch v := members[name].(type) {
		case bool:
			members[name] = !v
			return true
		case string:
			members[name] = v + "x"
			return true
		case json.Number:
			members[name] = num(v) + 1
			return true
		case nil:
			members[name] = 1
			return true
		}
	}
	return false
}

func dropMember(m obj) bool {
	members := membersOf(m)
	names := slices.Sorted(maps.Keys(members))
	if len(names) > 0 {
		delete(members, names[0])
	}
	return len(names) > 0
}

func changeType(m obj) bool {
	result := resultOf(m)
	names := slices.Sorted(maps.Keys(result))
	if len(names) == 0 {
		return false
	}
	if _, isList := result[names[0]].([]any); isList {
		result[names[0]] = "a list no more"
	} else {
		result[names[0]] = []any{1, 2}
	}
	return true
}

func changeSeq(m obj) bool {
	p := paramsOf(m)
	if p == nil || p["seq"] == nil || p["processId"] == "m7" { // the recorded seq is wrong already: peersOwnFault
		return false
	}
	p["seq"] = num(p["seq"]) + 1
	return true
}

// changeBytes flips a letter of the output.
func changeBytes(m obj) bool {
	p := paramsOf(m)
	text, isOutput := p["chunk"].(string)
	if !isOutput {
		return false
	}
	data, _ := base64.StdEncoding.DecodeString(text)
	i := slices.IndexFunc(data, func(b byte) bool { return b >= 'A' && b <= 'z' })
	if i < 0 {
		i = 0
	}
	data[i] ^= 1
	p["chunk"] = base64.StdEncoding.EncodeToString(data)
	return true
}
