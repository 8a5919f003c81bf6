// Package newest remembers a value for each of the newest keys.
package newest

// A Map forgets its oldest key when a new key would be too many. The zero Map is empty. A single goroutine at a time uses a Map.
type Map[K comparable, V any] struct {
	// ring are the keys of values, each once. Once it is full, ring[next] is the oldest.
	ring []K
	next int
	// values has as many entries as ring. Nil until the first.
	values map[K]V
}

// Get returns the value of a key; ok is false if there is none.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	v, ok = m.values[key]
	return v, ok
}

// Put sets the value of a key. With more than most keys, Put forgets the oldest key: the key that was put first. Every call for a
// Map passes the same most, 1 or more.
func (m *Map[K, V]) Put(key K, v V, most int) {
	if m.values == nil {
		m.values = make(map[K]V)
	}
	if _, known := m.values[key]; !known {
		if len(m.ring) < most {
			m.ring = append(m.ring, key)
		} else {
			delete(m.values, m.ring[m.next])
			m.ring[m.next] = key
			m.next = (m.next + 1) % most
		}
	}
	m.values[key] = v
}

// Change replaces each value by the result of change.
func (m *Map[K, V]) Change(change func(V) V) {
	for key, v := range m.values {
		m.values[key] = change(v)
	}
}
