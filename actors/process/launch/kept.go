package launch

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxKept bounds the arguments and environments that a session keeps, in bytes: of each process
// before its first run, and of each process with a restart policy. A session keeps them while
// nobody is attached, too. All sessions together have an eighth of Config.Budget, and each 64 KiB
// beside.
const maxKept = 32 << 20

// kept counts bytes of gauge.KeptBytes until all users have released them.
type kept struct {
	gauge *message.Gauge
	bytes int64
	users atomic.Int64
}

// hold is a use of kept. The zero hold uses nothing. Any goroutine may release a hold, any number
// of times.
type hold struct {
	of   *kept
	once sync.Once
}

func (h *hold) release() {
	if h.of == nil {
		return
	}
	h.once.Do(func() {
		if h.of.users.Add(-1) == 0 {
			h.of.gauge.KeptBytes.Add(-h.of.bytes)
			h.of.gauge.Account.Give(int(h.of.bytes))
		}
	})
}

// Environments are the environments of a group/start, by their hash. Processes with equal
// environments share the memory. Nil Environments share nothing.
type Environments map[uint64]*Launch

// hashSeed is of the keys of environments.
var hashSeed = maphash.MakeSeed()

// keep counts the arguments and the environment of the process, or refuses too many bytes. Only the
// session calls keep, and nobody else adds to the gauge.
func (l *Launch) keep(gauge *message.Gauge, envs Environments) *protocol.Error {
	argv := stringsBytes(l.Spec.Argv)
	if live := l.Params.Liveness; live != nil && live.Probe != nil {
		argv += stringsBytes(live.Probe.Argv)
	}
	if ready := l.Params.Ready; ready != nil && ready.Probe != nil {
		argv += stringsBytes(ready.Probe.Argv)
	}
	argv += sandboxBytes(l.Spec.Sandbox)
	if l.shell != nil {
		argv += stringsBytes(l.shell.Own) + policyBytes(l.shell.Policy)
	}
	env, first := stringsBytes(l.Spec.Env), (*Launch)(nil)
	var key uint64
	if envs != nil {
		var h maphash.Hash
		h.SetSeed(hashSeed)
		for _, s := range l.Spec.Env {
			h.WriteString(s)
			h.WriteByte(0)
		}
		key = h.Sum64()
		if o := envs[key]; o != nil && slices.Equal(o.Spec.Env, l.Spec.Env) {
			first, env = o, 0
		}
	}
	if has := gauge.KeptBytes.Load(); has+argv+env > maxKept {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "process %s needs %d bytes of arguments and environment, and the session keeps %d for processes that wait or may be run again: the limit is %d. Let some end, or give them less",
			wireerr.Clip(l.Params.ProcessID), argv+env, has, int64(maxKept))
	}
	if !gauge.Account.Try(int(argv + env)) {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "process %s needs %d bytes of arguments and environment, and the sessions of this server keep as much for processes that wait or may be run again as they may, an eighth of memory-budget, which is %d here, and use %d: try again later, or give it less",
			wireerr.Clip(l.Params.ProcessID), argv+env, l.Env.Budget, l.Env.StartBudget.Used()).
			Exceeds("memory-budget", float64(l.Env.Budget/8), float64(l.Env.StartBudget.Used()))
	}
	use := func(h *hold, k *kept) {
		k.users.Add(1)
		h.of = k
	}
	use(&l.argv, &kept{gauge: gauge, bytes: argv})
	if first != nil {
		l.Spec.Env = first.Spec.Env
		use(&l.environ, first.environ.of)
	} else {
		use(&l.environ, &kept{gauge: gauge, bytes: env})
		if envs != nil {
			envs[key] = l
		}
	}
	gauge.KeptBytes.Add(argv + env)
	return nil
}

// stringsBytes is about how much memory they take.
func stringsBytes(all []string) (n int64) {
	const header = 16
	for _, s := range all {
		n += int64(len(s)) + header
	}
	return n
}

// policyBytes is about how much memory a policy takes.
func policyBytes(p *protocol.EnvPolicy) int64 {
	if p == nil {
		return 0
	}
	n := stringsBytes(p.Exclude) + stringsBytes(p.IncludeOnly)
	for name, value := range p.Set {
		n += stringsBytes([]string{name, value})
	}
	return n
}
