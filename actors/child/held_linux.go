package child

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/confine"
	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// note is what the holder keeps of a child beside its descriptors, as JSON. A missing field is zero, and an unknown one is skipped.
type note struct {
	Born       uint64             `json:"b"`
	Tag        [2]uint64          `json:"t"`
	Marker     [2]uint64          `json:"m,omitzero"`
	Cgroup     string             `json:"c,omitempty"`
	StdinQueue int                `json:"q,omitempty"`
	Sandbox    string             `json:"s,omitempty"`
	Level      string             `json:"l,omitempty"` // once the program runs
	IsInit     bool               `json:"i,omitempty"`
	Places     []placeholder.Kept `json:"p,omitempty"` // the files are place0, place1 …
	Paths      []string           `json:"pp,omitempty"`

	// What is done when the program runs. Doing it twice changes nothing.
	Score    *int `json:"o,omitempty"`
	Restrain bool `json:"r,omitempty"`
}

func noteOf(b *Born) note {
	n := note{
		Born: b.Born, Tag: b.Tag, Marker: b.Marker, Cgroup: b.Cgroup,
		StdinQueue: b.StdinQueue, Sandbox: b.Sandbox, Level: b.SandboxLevel, IsInit: b.IsInit,
	}
	n.Places, n.Paths = b.held.Keep()
	return n
}

func (n *note) String() string {
	text, _ := json.Marshal(n) // has numbers and strings only
	return string(text)
}

// kept is a child on its way to be one of the holder. A nil kept is a child of this program.
type kept struct {
	host *Host
	slot slot
	name string
	note note
}

// keep has the holder keep what must outlive this program of a child that will be forked. kept is nil if the child belongs to this program alone.
// The next program finds the child, whatever happens to this program from now on:
//
//   - the slot names the child, and has no pid
//   - the holder has our ends of the streams, the locks of placeholders, the note, and the socket of a jail
//   - the fork: the kernel stores the pid in the slot
//   - the program runs, or nothing of it ever will
//   - the holder knows the pid
//   - the slot is free
func (h *Host) keep(b *Born, spec *Spec, restrain bool) (*kept, error) {
	if h.holder == nil || spec.Serve != nil {
		return nil, nil
	}
	slot, err := h.slots.take(spec.Name)
	if err != nil {
		return nil, err
	}
	k := &kept{host: h, slot: slot, name: spec.Name, note: noteOf(b)}
	k.note.Restrain = restrain
	if !trees.ScoresItself(spec.Limits) {
		k.note.Score = spec.Limits.OOMScoreAdj
	}
	strike("named")
	files := make(map[string]int, 4)
	for name, file := range b.files() {
		nonblock.Control(file, func(fd uintptr) { files[name] = int(fd) })
	}
	for i, place := range k.note.Places {
		files[fmt.Sprint("place", i)] = place.File
	}
	if err := h.holder.KeepNoted(spec.Name, k.note.String(), files); err != nil {
		slot.leave()
		return nil, err
	}
	strike("kept")
	return k, nil
}

// streams returns where b has its streams, by their names at the holder.
func (b *Born) streams() map[string]**os.File {
	return map[string]**os.File{"tty": &b.TTY, "stdin": &b.Stdin, "stdout": &b.Stdout, "stderr": &b.Stderr, "jail": &b.Jail}
}

// files returns the streams that b has, by their names at the holder.
func (b *Born) files() map[string]*os.File {
	files := make(map[string]*os.File)
	for name, file := range b.streams() {
		if *file != nil {
			files[name] = *file
		}
	}
	return files
}

// jail has the holder keep our end of the socket of a jail.
func (k *kept) jail(socket *os.File) (err error) {
	if k == nil {
		return nil
	}
	nonblock.Control(socket, func(fd uintptr) { err = k.host.holder.KeepNoted(k.name, "", map[string]int{"jail": int(fd)}) })
	strike("jail kept")
	return err
}

// mark makes the process a child of the holder.
func (k *kept) mark(a *fork.Attr) {
	if k == nil {
		return
	}
	a.Parent, a.NotAmbient = k.host.holder.PID(), notAmbient()
	a.PIDSlot = (*uint32)(unsafe.Pointer(k.slot.pid()))
}

// sending notes that the program of a jail may run from now on.
func (k *kept) sending() {
	strike("jail prepared")
	k.slot.send()
	strike("plan sent")
}

// unborn is called before the child of a failed start is reaped, and after its kill: after the reap its pid may be another's.
func (k *kept) unborn() {
	if k == nil {
		return
	}
	strike("failed")
	k.slot.pid().Store(0)
	strike("unborn")
}

// forget ends a failed start. The child is killed, if there is one.
func (k *kept) forget() {
	if k == nil {
		return
	}
	strike("buried")
	k.host.holder.Forget(k.name) // fails at the end of the holder, which forgets all
	strike("forgotten")
	k.slot.leave()
}

// born tells the holder that the program runs. Errors mean the end of the holder, and so of the child.
func (k *kept) born(b *Born) {
	if k == nil {
		return
	}
	strike("runs")
	h := k.host.holder
	if b.SandboxLevel != "" {
		k.note.Level = b.SandboxLevel
		h.KeepNoted(k.name, k.note.String(), nil)
	}
	h.Born(k.name, b.PID)
	strike("born")
	k.slot.leave()
	strike("done")
	if b.Jail == nil {
		if b.Sandbox != "" {
			h.Drop(k.name, "jail") // the jail has become the program
		}
		return
	}
	confine.Drain(b.Jail)
}

// find takes over what the holder has from earlier programs: the children whose programs run are found, and nothing is left of others.
func (h *Host) find(all []holder.Found) {
	if h.holder == nil {
		return
	}
	underWay := make(map[string]slot)
	for _, s := range h.slots.used() {
		underWay[s.name()] = s
	}
	var settled sync.WaitGroup
	for i := range all {
		kid := &all[i]
		if kid.ID == "" {
			continue
		}
		s, starting := underWay[kid.ID]
		delete(underWay, kid.ID)
		if kid.PID != 0 && starting {
			s.leave() // the program runs: the holder knows the pid
			starting = false
		}
		if starting {
			kid.PID = int(s.pid().Load())
		}
		f, n := h.foundOf(kid)
		switch {
		case kid.PID == 0:
			h.lose(f)
			if starting {
				s.leave()
			}
		case starting:
			settled.Go(func() { h.settle(f, n, s) })
		default:
			h.mu.Lock()
			h.found[f.Name] = f
			h.mu.Unlock()
		}
	}
	for _, s := range underWay { // named, and not kept; or failed, and forgotten
		s.leave()
	}
	settled.Wait()
}

// foundOf makes a found child of what the holder has.
func (h *Host) foundOf(kid *holder.Found) (*found, note) {
	var n note
	if err := json.Unmarshal([]byte(kid.Note), &n); err != nil {
		h.log.Error("the note of a child of an earlier server is unreadable: its descendants may not be found", "name", kid.ID, "err", err)
	}
	f := new(found)
	f.Trace = trees.Trace{Name: kid.ID, Born: n.Born, Tag: n.Tag, Marker: n.Marker, Cgroup: n.Cgroup}
	f.PID, f.StdinQueue, f.Sandbox, f.SandboxLevel, f.IsInit = kid.PID, n.StdinQueue, n.Sandbox, n.Level, n.IsInit
	for i := range n.Places {
		n.Places[i].File = -1
	}
	streams := f.streams()
	for name, fd := range kid.Files {
		place := 0
		if stream, ok := streams[name]; ok {
			file, err := trees.OurFile(fd, name)
			if err != nil {
				h.log.Error("a stream of a child of an earlier server is lost", "name", kid.ID, "stream", name, "err", err)
				continue
			}
			*stream = file
		} else if _, err := fmt.Sscanf(name, "place%d", &place); err == nil && place < len(n.Places) {
			n.Places[place].File = fd
		} else {
			unix.Close(fd)
		}
	}
	n.Places = slices.DeleteFunc(n.Places, func(p placeholder.Kept) bool { return p.File < 0 })
	if len(n.Places) > 0 {
		f.held = h.places.Adopt(n.Places, n.Paths)
	}
	if kid.PID == 0 {
		return f, n
	}
	f.tree = h.trees.Adopt(f.Trace, kid.PID)
	if f.Jail != nil && f.IsInit {
		f.tree.Ending = confine.Ending(f.Jail)
	}
	if kid.End.Ended {
		f.tree.BeginReaped(kid.PID)
	} else {
		f.tree.Begin(kid.PID)
	}
	return f, n
}

// lose closes what is left of a child whose program never ran.
func (h *Host) lose(f *found) {
	for _, file := range f.files() {
		file.Close()
	}
	h.releasePlaces(f.held)
	h.holder.Forget(f.Name)
}

// graceOfStart is how long a child that was forked by an earlier program may take until its program runs. A later one is killed, and has never run.
var graceOfStart = time.Second

// settle finds out whether the program of a child runs whose start was under way when its server died.
func (h *Host) settle(f *found, n note, s slot) {
	runs := false
	if f.Jail != nil {
		runs = h.settleJail(f, s)
	} else {
		runs = h.settleExec(f.PID)
	}
	if runs {
		if n.Score != nil {
			trees.ScoreLate(f.PID, protocol.ProcessLimits{OOMScoreAdj: n.Score})
		}
		if n.Restrain {
			h.trees.Restrain(f.PID)
		}
		if f.SandboxLevel != n.Level {
			n.Level = f.SandboxLevel
			h.holder.KeepNoted(f.Name, n.String(), nil)
		}
		h.holder.Born(f.Name, f.PID)
		strike("found born")
		s.leave()
		if f.Jail != nil && !f.IsInit {
			f.Jail.Close()
			f.Jail = nil
			h.holder.Drop(f.Name, "jail")
		}
		h.mu.Lock()
		h.found[f.Name] = f
		h.mu.Unlock()
		return
	}
	unix.Kill(f.PID, unix.SIGKILL)
	s.pid().Store(0) // before the reap: see kept.unborn
	strike("found unborn")
	buried := make(chan struct{})
	go func() {
		defer close(buried)
		if left, err := f.tree.BuryLate(f.PID, func() {}); left != nil || err != nil {
			h.log.Warn("a start of a dead server has left something", "name", f.Name, "left", left, "err", err)
		}
	}()
	h.lose(f)
	s.leave()
	select {
	case <-buried:
	case <-time.After(graceOfStart): // its filesystem does not answer
	}
	strike("found buried")
}

// settleExec reports whether the child has executed its program.
func (h *Host) settleExec(pid int) bool {
	var pause trees.Backoff
	killed := false
	for begun := time.Now(); ; pause.Wait() {
		executed, ended := trees.Executed(pid)
		if executed || ended {
			return executed
		}
		switch late := time.Since(begun); {
		case late > 2*graceOfStart:
			return false // it hangs, and ends without running
		case late > graceOfStart && !killed:
			killed = true
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// settleJail reports whether the program of the jail runs.
func (h *Host) settleJail(f *found, s slot) (runs bool) {
	if !s.sent() {
		return false // the jail waits for its plan
	}
	if executed := h.settleExec(f.PID); !executed {
		return false
	}
	f.SandboxLevel, runs = confine.Resume(f.Jail, f.PID, f.IsInit, graceOfStart, h.answerTime)
	return runs
}
