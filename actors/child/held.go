package child

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/budget"
)

// strike is called wherever the death of this program makes a difference to a start, and where a start meets a stray. Tests replace strike.
var strike = func(point string) {}

// Holder keeps what must outlive this program, and is the parent of the children. It is a holder.Server.
type Holder interface {
	trees.Holder
	KeepNoted(id, note string, files map[string]int) error
	Drop(id string, names ...string) error
	Born(id string, pid int) error
	Forget(id string) error
}

// found is a child of an earlier program, at the holder.
type found struct {
	Born
	tree *trees.Tree
}

// stray is a child of an earlier program that nobody wants, on its way to its end.
type stray struct {
	gone chan struct{} // closed when the stray is gone, or does not go
	err  error         // why it does not go; read after gone
}

// Found lists the children of earlier programs that nobody has adopted yet, by name. Everything of them that is no descriptor comes from a note at
// the holder. Adopt, or Start with the same name, takes such a child over.
func (h *Host) Found() (list []Born) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.found {
		list = append(list, f.Born)
	}
	slices.SortFunc(list, func(a, b Born) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// EndStrays kills the children that nobody has adopted and that are not wanted, with their descendants, and has the holder forget them. EndStrays
// does not block. Until a stray is gone, a start with its name waits: the holder knows children by their names. gone waits until all strays
// are seen gone; its error is as of Handle.Finish.
func (h *Host) EndStrays(wanted map[string]bool) (gone func() error) {
	strays := h.adoptStrays(wanted)
	errs := make([]error, len(strays))
	var ending sync.WaitGroup
	for i, p := range strays {
		s := &stray{gone: make(chan struct{})}
		h.mu.Lock()
		h.strays[p.tree.Name()] = s
		h.mu.Unlock()
		ending.Go(func() {
			strike("stray adopted")
			s.err = p.finish()
			if errs[i] = s.err; s.err == nil {
				h.mu.Lock()
				delete(h.strays, p.tree.Name())
				h.mu.Unlock()
			}
			close(s.gone)
		})
	}
	return func() error {
		ending.Wait()
		return errors.Join(errs...)
	}
}

// adoptStrays adopts the children that nobody has adopted. Nobody reads their output.
func (h *Host) adoptStrays(wanted map[string]bool) (all []*process) {
	for _, b := range h.Found() {
		if wanted[b.Name] {
			continue
		}
		if f := h.takeFound(b.Name); f != nil {
			in := NewIntake(0, budget.NewOutput(0, func() {}), nil, func() {})
			in.Abort()
			p := h.adopt(f.Born, f.tree, in, nil)
			p.watch()
			all = append(all, p)
		}
	}
	return all
}

// awaitStray waits until a stray with a name is gone, if there is one. The error says that the stray does not go.
func (h *Host) awaitStray(name string, step func(what string)) error {
	h.mu.Lock()
	s := h.strays[name]
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	step(fmt.Sprintf("end of the program %q of an earlier server", name))
	strike("stray awaited")
	<-s.gone
	if s.err != nil {
		return fmt.Errorf("a program of an earlier server has the name %q: %w", name, s.err)
	}
	return nil
}

// takeFound takes the found child with a name; nil: there is none.
func (h *Host) takeFound(name string) *found {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.found[name]
	delete(h.found, name)
	return f
}

// startFound answers a start of a child that the holder has already; false: there is none.
func (h *Host) startFound(spec *Spec, in *Intake, done func(Handle, error)) bool {
	h.mu.Lock()
	f := h.found[spec.Name]
	if f == nil || h.closing {
		h.mu.Unlock()
		return false
	}
	delete(h.found, spec.Name)
	h.starts.Add(1) // until then the host does not close
	h.mu.Unlock()
	go func() {
		defer h.starts.Done()
		p := h.adopt(f.Born, f.tree, in, spec.StdinRate)
		h.openSpool(f.Name, in)
		done(p, nil)
		p.watch()
	}()
	return true
}
