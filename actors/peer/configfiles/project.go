package configfiles

import (
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// selector is a tree of TOML keys.
type selector struct {
	all      bool // everything below is selected
	children map[string]*selector
}

func newSelector(paths [][]string) *selector {
	root := new(selector)
	for _, path := range paths {
		s := root
		for _, key := range path {
			if s.all {
				break
			}
			if s.children[key] == nil {
				if s.children == nil {
					s.children = make(map[string]*selector)
				}
				s.children[key] = new(selector)
			}
			s = s.children[key]
		}
		s.all, s.children = true, nil
	}
	return root
}

// cut returns the selected part of a value. A value that is no table stays whole: it overrides a table in
// an earlier layer.
func (s *selector) cut(value any) any {
	table, ok := value.(map[string]any)
	if s.all || !ok {
		return value
	}
	part := make(map[string]any)
	for key, child := range s.children {
		if value, ok := table[key]; ok {
			part[key] = child.cut(value)
		}
	}
	return part
}

// project returns the selected parts of layers, without the layers that have none. room is how many bytes
// of TOML the answer may still have.
func project(from stack, paths [][]string, room *int, hold files.Hold) (to protocol.ConfigLayers, err error) {
	s := newSelector(paths)
	for i, l := range from.layers {
		part, _ := s.cut(l.toml).(map[string]any)
		if len(part) == 0 {
			continue
		}
		text, ok := encode(part, *room)
		if !ok {
			return to, protocol.Errorf(protocol.KindTooLarge, protocol.CodeInvalidParams, "environment config response exceeds the %d-byte limit", maxAnswer)
		}
		*room -= len(text)
		if err := hold.Take(len(text)); err != nil {
			return to, err
		}
		if i < from.system {
			to.CloudInsertionIndex++
		}
		to.Layers = append(to.Layers, protocol.ConfigLayer{Source: l.source, BaseDir: protocol.FileURI(l.baseDir), TOML: text})
	}
	return to, nil
}
