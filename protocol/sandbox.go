package protocol

import (
	"encoding/json"
	"slices"
)

// confinesReads reports whether the sandbox may forbid to read some file. An unknown member may be one
// that narrows, so a sandbox with unknown members confines. (sandbox wire §1.2.)
func (c Confinement) confinesReads() bool {
	if c.Sandbox == nil {
		return false
	}
	var sandbox map[string]json.RawMessage
	if json.Unmarshal(c.Sandbox, &sandbox) != nil {
		return true
	}
	p := membersOf(sandbox["permissions"], "type", "network", "file_system")
	switch textOf(p["type"]) {
	case "disabled", "external":
		return false
	case "managed":
	default:
		return true
	}
	fs := membersOf(p["file_system"], "type", "entries", "glob_scan_max_depth")
	switch textOf(fs["type"]) {
	case "unrestricted":
		return false
	case "restricted":
		return entriesConfineReads(fs["entries"])
	}
	return true
}

// entriesConfineReads reports whether something is left unreadable: some entry denies, or no entry
// permits to read the root.
func entriesConfineReads(raw json.RawMessage) bool {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return true
	}
	all := false
	for _, raw := range entries {
		entry := membersOf(raw, "path", "access", "missing_path_behavior")
		if access := textOf(entry["access"]); access != "read" && access != "write" {
			return true
		}
		path := membersOf(entry["path"], "type", "path", "pattern", "value")
		root := membersOf(path["value"], "kind")
		all = all || textOf(path["type"]) == "special" && textOf(root["kind"]) == "root"
	}
	return !all
}

// membersOf returns the members of an object. With a name that is not in known there are none.
func membersOf(raw json.RawMessage, known ...string) (members map[string]json.RawMessage) {
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for name := range members {
		if !slices.Contains(known, name) {
			return nil
		}
	}
	return members
}

// textOf returns a string; empty: raw is no string.
func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
