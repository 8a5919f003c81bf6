package feed

// Pin is the seq after which the log keeps every entry for the owner: an owner that is sent
// again the entries it acknowledged pins them, too.
func (f *Feed[K, A]) Pin() uint64 {
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

// Trim drops the oldest entries that need not be kept: those up to the pin, as long as the
// log costs more than its retention. With short, the server's memory is short: all up to the
// pin goes.
func (f *Feed[K, A]) Trim(short bool) {
	keep, limit := f.Pin(), f.Retention
	if short || f.Log.Spooled() > 0 || f.Ephemeral {
		limit = 0 // entries that were had make room for entries that were not
	}
	if f.Evicts && keep > 0 {
		keep-- // the newest stays, however small the retention: it is on its way to viewers
	}
	f.Log.Drop(limit, keep)
}

// Held is how many bytes the log holds, and how many of them for the owner.
func (f *Feed[K, A]) Held() (retained, pinned int64) {
	return f.Log.Cost(0), f.Log.Cost(f.Pin())
}

// Full reports whether the owner must have some of the log before more is added that no
// credit was taken for. Beyond the retention, the log may hold extra bytes for the owner.
func (f *Feed[K, A]) Full(extra int64) bool {
	_, pinned := f.Held()
	return !f.Evicts && pinned >= f.Retention+extra
}
