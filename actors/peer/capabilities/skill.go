package capabilities

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxSkillName = 64 // characters
	// maxFrontMatter bounds the part of a skill that is YAML, in bytes: YAML takes far more memory
	// than text.
	maxFrontMatter = 64 << 10
)

// skillText is the front matter of a skill.
type skillText struct {
	name, description string
	short             *string
}

// parseSkill reads the front matter of SKILL.md: YAML between two lines of three dashes. A skill without
// a name is called as its directory dir.
func parseSkill(contents, dir string) (skill skillText, err error) {
	text, err := frontMatter(contents)
	if err != nil {
		return skill, err
	}
	fields, err := parseFields(text)
	if err != nil {
		repaired := repair(text)
		if repaired == text {
			return skill, err
		}
		if fields, err = parseFields(repaired); err != nil {
			return skill, err
		}
	}
	skill.name, skill.description = oneLine(fields.name), oneLine(fields.description)
	if skill.name == "" {
		skill.name = oneLine(dir)
	}
	if skill.name == "" {
		skill.name = "skill"
	}
	if short := oneLine(fields.short); short != "" {
		skill.short = &short
	}
	switch {
	case utf8.RuneCountInString(skill.name) > maxSkillName:
		return skill, fmt.Errorf("name exceeds %d characters", maxSkillName)
	case skill.description == "":
		return skill, errors.New("missing field `description`")
	}
	return skill, nil
}

// oneLine replaces each run of white space by a blank.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// frontMatter returns the lines between the first line, of three dashes, and the next such line.
func frontMatter(contents string) (string, error) {
	var lines []string
	size, inside := 0, false
	for line := range strings.Lines(contents) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		dashes := strings.TrimSpace(line) == "---"
		switch {
		case dashes && inside && len(lines) > 0:
			return strings.Join(lines, "\n"), nil
		case dashes == inside: // nothing between the lines, or no first line
			return "", errors.New("missing YAML frontmatter delimited by ---")
		case inside:
			if size += len(line) + 1; size > maxFrontMatter {
				return "", fmt.Errorf("the front matter has more than %d bytes", maxFrontMatter)
			}
			lines = append(lines, line)
		}
		inside = true
	}
	return "", errors.New("missing YAML frontmatter delimited by ---")
}

// skillFields are the fields of a front matter as written.
type skillFields struct{ name, description, short string }

// parseFields reads YAML. Nodes are never expanded: an alias costs nothing.
func parseFields(text string) (f skillFields, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return f, err
	}
	if len(doc.Content) == 0 {
		return f, nil // comments only: no field
	}
	err = eachField(doc.Content[0], func(key string, value *yaml.Node) (err error) {
		switch key {
		case "name":
			f.name, err = stringOf(value)
		case "description":
			f.description, err = stringOf(value)
		case "metadata":
			err = eachField(value, func(key string, value *yaml.Node) (err error) {
				if key == "short-description" {
					f.short, err = stringOf(value)
				}
				return err
			}, "short-description")
		}
		return err
	}, "name", "description", "metadata")
	return f, err
}

// eachField calls do for each member of a mapping. Each of the names may appear only once.
func eachField(n *yaml.Node, do func(string, *yaml.Node) error, names ...string) error {
	n = target(n)
	if n.Kind == yaml.ScalarNode && n.Value == "" {
		return nil // nothing after the colon
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: expected a mapping", n.Line)
	}
	seen := make(map[string]bool, len(names))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		if key.Kind != yaml.ScalarNode {
			continue
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: duplicate field `%s`", key.Line, key.Value)
		}
		for _, name := range names {
			seen[name] = seen[name] || key.Value == name
		}
		if err := do(key.Value, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// target returns the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// stringOf returns a string; empty for null. Numbers and booleans are no strings.
func stringOf(n *yaml.Node) (string, error) {
	n = target(n)
	if n.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("line %d: expected a string", n.Line)
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return "", nil
	}
	return "", fmt.Errorf("line %d: `%s` is not a string: put it in quotes", n.Line, n.Value)
}

// colonInText matches a colon that YAML would take for the end of a key.
var colonInText = regexp.MustCompile(`:\s`)

// repair puts quotes around the values that are prose but no YAML, such as `Build for AWS: ECS`. Each
// line is looked at alone, and block scalars stay as they are.
func repair(text string) string {
	lines := strings.Split(text, "\n")
	block := -1 // the indent of a block scalar's key; negative: in no block scalar
	for i, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if block >= 0 && (strings.TrimSpace(line) == "" || indent > block) {
			continue
		}
		block = -1
		key, value, ok := strings.Cut(line, ":")
		trimmed := strings.TrimLeftFunc(value, unicode.IsSpace)
		if !ok || strings.TrimSpace(key) == "" || value != "" && len(trimmed) == len(value) {
			continue
		}
		scalar, comment := cutComment(trimmed)
		if scalar == "" {
			continue
		}
		switch first := scalar[0]; {
		case first == '|' || first == '>':
			block = indent
			continue
		case first == '\'' || first == '"':
			continue
		case colonInText.MatchString(scalar):
		case strings.IndexByte("[{@`", first) >= 0 && !isYAML(scalar):
		default:
			continue
		}
		lines[i] = key + ":" + value[:len(value)-len(trimmed)] + "'" + strings.ReplaceAll(scalar, "'", "''") + "'" + comment
	}
	return strings.Join(lines, "\n")
}

func isYAML(text string) bool {
	var n yaml.Node
	return yaml.Unmarshal([]byte(text), &n) == nil
}

// cutComment cuts a value before its comment: a number sign after white space or at the beginning.
func cutComment(value string) (scalar, comment string) {
	for i := range value {
		before, _ := utf8.DecodeLastRuneInString(value[:i])
		if value[i] == '#' && (i == 0 || unicode.IsSpace(before)) {
			scalar = strings.TrimRightFunc(value[:i], unicode.IsSpace)
			return scalar, value[len(scalar):]
		}
	}
	return strings.TrimRightFunc(value, unicode.IsSpace), ""
}
