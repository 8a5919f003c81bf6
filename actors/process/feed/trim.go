package feed

// pin returns a seq: the log keeps every later entry for the owner. While an owner is sent again
// entries after their Ack, the cursor of the owner is the pin.
func (f *Feed[K, A]) pin() uint64 {
	if f.Evicts {
		return f.Log.Last()
	}
	pin := f.owner.acked
	for _, v := range f.viewers {
		if v.Owner {
			pin = min(pin, v.cursor.Seq)
		}
	}
	return pin
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

// Held returns how many bytes the log holds, and how many of them for the owner.
func (f *Feed[K, A]) Held() (retained, pinned int64) {
	return f.Log.Cost(0), f.Log.Cost(f.pin())
}

// Full reports whether the owner must have some of the log before the log gets entries without
// credit. Beyond the retention, the log may hold extra bytes for the owner.
func (f *Feed[K, A]) Full(extra int64) bool {
	_, pinned := f.Held()
	return !f.Evicts && pinned >= f.Retention+extra
}
