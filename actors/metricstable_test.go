package actors

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricsTable returns the table of docs/METRICS.md.
func MetricsTable() string {
	var b strings.Builder
	b.WriteString("\n| metric | kind | labels | |\n|---|---|---|---|\n")
	for _, m := range metrics {
		kind := map[prometheus.ValueType]string{counts: "counter", gauge: "gauge", histogram: "histogram"}[m.kind]
		labels := ""
		for _, l := range m.labels {
			labels += "`" + l + "` "
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, kind, strings.TrimSpace(labels), m.help)
	}
	return b.String()
}

// MetricNames returns the names of all metrics.
func MetricNames() (all []string) {
	for _, m := range metrics {
		all = append(all, m.name)
	}
	return all
}
