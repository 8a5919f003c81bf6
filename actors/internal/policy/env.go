package policy

import (
	"os"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Bounds of an envPolicy. The server tries every pattern on every name.
const (
	maxPatterns = 256     // entries of exclude, and of includeOnly
	maxPattern  = 1 << 10 // bytes of each pattern
	maxSet      = 10_000  // entries of set
	// maxWork bounds child.MatchingWork of all policies in one message: some 200 ms.
	maxWork = 128 << 20
)

// CheckEnv refuses an oversized envPolicy, and patterns whose matching would take too long. A nil
// p passes.
func CheckEnv(p *protocol.EnvPolicy) *protocol.Error {
	if p == nil {
		return nil
	}
	for _, list := range []struct {
		name  string
		globs []string
	}{{"exclude", p.Exclude}, {"includeOnly", p.IncludeOnly}} {
		for i, glob := range list.globs {
			if n := len(glob); n > maxPattern {
				return protocol.WrongParams("envPolicy.%s[%d] has %d bytes, the limit is %d", list.name, i, n, maxPattern)
			}
		}
	}
	for _, has := range []struct {
		name     string
		n, limit int
	}{{"exclude", len(p.Exclude), maxPatterns}, {"includeOnly", len(p.IncludeOnly), maxPatterns}, {"set", len(p.Set), maxSet}} {
		if has.n > has.limit {
			return protocol.WrongParams("envPolicy.%s has %d entries, the limit is %d", has.name, has.n, has.limit)
		}
	}
	return CheckEnvWork(child.MatchingWork(p, os.Environ()))
}

// CheckGroupEnv refuses the policies of the processes of a group if their matching would take too long. A connection has applied
// the policies of its client: these are the policies of a host.
func CheckGroupEnv(processes []protocol.ProcessStartParams) *protocol.Error {
	server, work := os.Environ(), int64(0)
	for i := range processes {
		work += child.MatchingWork(processes[i].EnvPolicy, server)
	}
	return CheckEnvWork(work)
}

// CheckEnvWork refuses the policies of one message if their matching would take too long. work is the sum
// of child.MatchingWork of these policies.
func CheckEnvWork(work int64) *protocol.Error {
	if work > maxWork {
		return protocol.WrongParams("envPolicy: the bytes of all patterns times the bytes of all names they are tried on are %d, the limit for a message is %d: use fewer or shorter patterns", work, maxWork)
	}
	return nil
}
