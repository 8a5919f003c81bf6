package plan

import "net/url"

// Redacted returns the plan as a report may have it: the URL of Metrics has "xxxxx" for its password. Servers have no passwords: Check refuses
// them.
func (p Plan) Redacted() Plan {
	if u, err := url.Parse(p.Metrics); err == nil {
		p.Metrics = u.Redacted()
	}
	return p
}
