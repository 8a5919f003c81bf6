package feed

import "time"

// pin returns a seq: the log keeps every later entry for the owner, or for a viewer with Hold. A viewer may acknowledge entries before
// they are sent to it: the viewer has read them, or an owner is sent them again. Until they are sent, the cursor of the viewer is the pin.
func (f *Feed[K, A]) pin() uint64 {
	pin := f.owner.acked
	switch {
	case f.Awaits():
		return 0
	case f.Evicts:
		pin = f.Log.Last()
	}
	for _, v := range f.viewers {
		if v.Hold || v.Owner && !f.Evicts {
			pin = min(pin, v.cursor.Seq)
		}
		if v.Hold {
			pin = min(pin, v.acked)
		}
	}
	return pin
}

// Await has the log hold everything until a viewer with Hold comes, for d at most.
func (f *Feed[K, A]) Await(now time.Time, d time.Duration) { f.until = now.Add(d) }

// Awaits reports whether the log holds everything for a viewer with Hold that is to come.
func (f *Feed[K, A]) Awaits() bool { return !f.until.IsZero() }

// Wake returns when Tick has something to do; zero: never.
func (f *Feed[K, A]) Wake() time.Time { return f.until }

// Tick ends a wait that is over, and reports whether it did: the log may hold less.
func (f *Feed[K, A]) Tick(now time.Time) bool {
	if f.until.IsZero() || f.until.After(now) {
		return false
	}
	f.until = time.Time{}
	return true
}

// Holding reports whether the log holds entries for viewers with Hold, or awaits such a viewer.
func (f *Feed[K, A]) Holding() bool {
	if f.Awaits() {
		return true
	}
	for _, v := range f.viewers {
		if v.Hold {
			return true
		}
	}
	return false
}

// HoldsAlone reports whether a viewer has Hold, and no other viewer.
func (f *Feed[K, A]) HoldsAlone(key K) bool {
	for k, v := range f.viewers {
		if v.Hold != (k == key) {
			return false
		}
	}
	return f.viewers[key] != nil
}

// Trim drops the oldest entries up to the pin. The newest Retention bytes stay, whoever has had them, but at most most
// bytes. While the live output of the owner may begin again with the missed output, the missed output stays, too, and
// no program waits for that. The caller first sends the new entries to the waiting viewers.
func (f *Feed[K, A]) Trim(most int64) {
	least := f.Retention
	if f.Ephemeral {
		least, most = 0, 0
	}
	keep := f.pin()
	if f.owner.unsorted() {
		keep = min(keep, f.owner.sorted)
	}
	f.Log.Drop(min(least, most), most, keep)
}

// Held returns how many bytes the log holds, and how many of them nobody may drop.
func (f *Feed[K, A]) Held() (retained, pinned int64) {
	return f.Log.Cost(0), f.Log.Cost(f.pin())
}

// Full reports whether the owner, or a viewer with Hold, must have some of the log before the log gets entries without
// credit. Beyond the retention, the log may hold extra bytes for them.
func (f *Feed[K, A]) Full(extra int64) bool {
	_, pinned := f.Held()
	return pinned >= f.Retention+extra && (!f.Evicts || f.Holding())
}
