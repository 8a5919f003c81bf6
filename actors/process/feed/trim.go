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

// Trim drops the oldest entries up to the pin, as long as the log costs more than its retention.
// With short, the server's memory is short, and Trim drops all entries up to the pin.
func (f *Feed[K, A]) Trim(short bool) {
	keep, limit := f.pin(), f.Retention
	if short || f.Log.Spooled() > 0 || f.Ephemeral {
		limit = 0 // acknowledged entries make room for others
	}
	if f.Evicts && keep > 0 {
		keep-- // the newest entry is on its way to viewers, and stays however small the retention
	}
	f.Log.Drop(limit, keep)
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
