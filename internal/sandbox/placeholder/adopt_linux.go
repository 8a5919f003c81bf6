package placeholder

import "golang.org/x/sys/unix"

// Kept is a held directory as another process takes it over.
type Kept struct {
	File int    `json:"-"` // the open directory, with the lock
	Name string `json:"n"` // in its parent
	Made bool   `json:"m,omitempty"`
}

// Keep returns what Adopt needs. The descriptors stay those of h: while a copy of each is open somewhere, the directories stay locked. A nil
// Held has no directories.
func (h *Held) Keep() (kept []Kept, paths []string) {
	if h == nil {
		return nil, nil
	}
	h.holder.mu.Lock()
	defer h.holder.mu.Unlock()
	for _, p := range h.places {
		kept = append(kept, Kept{File: p.fd, Name: p.name, Made: p.made})
	}
	return kept, h.paths
}

// Adopt takes over the directories of a Held of a dead server. The descriptors belong to the result.
func (h *Holder) Adopt(kept []Kept, paths []string) *Held {
	held := &Held{holder: h, paths: paths}
	h.note(paths)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range kept {
		var st unix.Stat_t
		if unix.Fstat(k.File, &st) != nil {
			continue // fails for bad descriptors only
		}
		p := h.places[idOf(&st)]
		if p == nil {
			if h.places == nil {
				h.places = make(map[id]*place)
			}
			p = &place{fd: k.File, id: idOf(&st), name: k.Name}
			h.places[p.id] = p
		} else {
			unix.Close(k.File) // without unlocking: it is the same open file
		}
		p.users++
		p.made = p.made || k.Made
		held.places = append(held.places, p)
	}
	return held
}
