package settings

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// masked stands for a secret.
const masked = "(secret)"

// Show prints all values in force, in the form of a file, and the source of each.
func (in *InForce) Show(w io.Writer) {
	for i, part := range in.Sections {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "# %s\n", part.Title)
		in.of(part, func(f *pflag.Flag) {
			line, from := in.line(f), cmp.Or(in.from[f.Name], "default")
			if _, never := in.NoFile[f.Name]; never || f.Name == in.File || strings.HasSuffix(line, ":") {
				line = "# " + line
			}
			fmt.Fprintf(w, "%-44s # %s\n", line, from)
		})
	}
}

// line is a line of a file.
func (in *InForce) line(f *pflag.Flag) string {
	text, set := in.text[f.Name]
	switch list, isList := f.Value.(pflag.SliceValue); {
	case !set && f.DefValue == "":
		return f.Name + ":"
	case slices.Contains(in.Secret, f.Name) && set:
		return "# " + f.Name + ": " + masked
	case isList && len(list.GetSlice()) == 0:
		return f.Name + ":"
	case isList:
		return f.Name + ": [" + strings.Join(list.GetSlice(), ", ") + "]"
	case !set:
		text = f.DefValue
	case strings.HasPrefix(text, "{"): // JSON is YAML
		return f.Name + ": " + text
	}
	b, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Value: text, Tag: tagOf(f, text)})
	if err != nil {
		return fmt.Sprintf("%s: %q", f.Name, text)
	}
	return f.Name + ": " + strings.TrimSpace(string(b))
}

// tagOf returns the type of a value in YAML.
func tagOf(f *pflag.Flag, text string) string {
	switch f.Value.Type() {
	case "int", "int64":
		return "!!int"
	case "bytes":
		if strings.Trim(text, "-0123456789") == "" {
			return "!!int"
		}
	case "float64":
		if !strings.ContainsAny(text, ".eE") {
			return "!!int"
		}
		return "!!float"
	case "bool":
		return "!!bool"
	}
	return "!!str"
}

// Page writes the reference of all settings, as Markdown.
func (s *Source) Page(w io.Writer) {
	for _, part := range s.Sections {
		fmt.Fprintf(w, "\n## %s\n\n| key and flag | variable | default | what it does |\n|---|---|---|---|\n", part.Title)
		s.of(part, func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			takes, text := pflag.UnquoteUsage(f)
			switch takes {
			case "int", "float":
				takes = "N"
			case "":
				takes = "true or false"
			}
			if _, never := s.NoFile[f.Name]; never || f.Name == s.File {
				text += ". Not in a file"
			}
			def := ""
			switch f.DefValue {
			case "", "[]":
			default:
				def = "`" + f.DefValue + "`"
			}
			fmt.Fprintf(w, "| `%s` %s | `%s` | %s | %s |\n", f.Name, cell(takes), s.Variable(f.Name), def, cell(text))
		})
	}
}

// cell returns a text for a cell of a table.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s) }
