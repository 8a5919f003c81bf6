package newest

import (
	"fmt"
	"testing"
)

// A Map remembers the newest keys, so many and no more. A key that is put again stays as old as before.
func TestMapForgetsTheOldest(t *testing.T) {
	const most = 5
	var m Map[string, int]
	id := func(i int) string { return fmt.Sprint(i) }
	for i := range 3 * most {
		m.Put(id(i), 0, most)
		m.Put(id(i), i, most)
		for j := range 3 * most {
			if v, ok := m.Get(id(j)); ok != (j <= i && j > i-most) || ok && v != j {
				t.Fatalf("after %d, %d has the value %d, %t", i, j, v, ok)
			}
		}
	}
	m.Put(id(3*most-1), 1, most)
	m.Put(id(3*most), 1, most)
	m.Change(func(v int) int { return v + 1 })
	if v, ok := m.Get(id(2 * most)); ok || len(m.values) != most || len(m.ring) != most {
		t.Errorf("the oldest has the value %d, %d of %d are remembered", v, len(m.values), most)
	}
	if v, ok := m.Get(id(3*most - 1)); !ok || v != 2 {
		t.Errorf("a changed value is %d, %t; want 2", v, ok)
	}
}
