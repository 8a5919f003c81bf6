package arena

import "math/bits"

const (
	// A block of an order below top has unit<<order bytes. The smallest block has room for the words of a chain.
	unit = 8 * Words
	// A block of order top is a whole region. The last page of a region belongs to no smaller block: with this page, a
	// region has room for four entries of 64 KiB, the capacity of a pipe, and for their headers.
	top        = 11
	units      = 1 << top
	page       = 4096
	regionSize = unit*units + page
	// keep is how many free regions keep their memory in Trim: the next output needs memory soon.
	keep = 4
)

// space says which memory is free, and dies with the process. A region is free, or is cut into blocks. Two halves of a block are buddies, and
// become a block again as soon as both are free.
type space struct {
	start int // of the first region
	// regions has for each region nil, if the region is free or a block. Else regions has for each unit the order of the free block that begins there,
	// and 1 more; 0: no free block begins there.
	regions []*[units]uint8
	free    [top][]int // places of the free blocks of an order. Some are not free any more.
	idle    []int      // free regions; the last is used first
	cold    int        // so many of idle, from the first, have no memory
}

// size returns the bytes of a block.
func size(order int) int {
	if order == top {
		return regionSize
	}
	return unit << order
}

// orderFor returns the order of the smallest block with n bytes.
func orderFor(n int) int { return min(bits.Len(uint(max(n-1, 0)/unit)), top) }

// place returns the place of a unit of a region, and unit is the reverse.
func (s *space) place(r, u int) int { return s.start + r*regionSize + u*unit }

func (s *space) unit(place int) (r, u int) {
	place -= s.start
	return place / regionSize, place % regionSize / unit
}

// take takes a block. There may be none.
func (s *space) take(order int) (place int, ok bool) {
	place, k, ok := s.pop(order)
	if !ok {
		last := len(s.idle) - 1
		if last < 0 {
			return 0, false
		}
		r := s.idle[last]
		s.idle, s.cold = s.idle[:last], min(s.cold, last)
		place, k = s.place(r, 0), top
		if order < top {
			s.regions[r] = new([units]uint8)
		}
	}
	for k > order {
		k--
		s.give(place+unit<<k, k) // the second half
	}
	return place, true
}

// pop takes a free block of the lowest order from least on, but not a region.
func (s *space) pop(least int) (place, order int, ok bool) {
	for order = least; order < top; order++ {
		for last := len(s.free[order]) - 1; last >= 0; last-- {
			place = s.free[order][last]
			s.free[order] = s.free[order][:last]
			r, u := s.unit(place)
			if cells := s.regions[r]; cells != nil && int(cells[u]) == order+1 {
				cells[u] = 0
				return place, order, true
			}
		}
	}
	return 0, 0, false
}

// give frees a block, and joins it with its buddy if the buddy is free, and so on.
func (s *space) give(place, order int) {
	r, u := s.unit(place)
	cells := s.regions[r]
	for ; order < top; order++ {
		buddy := u ^ 1<<order
		if int(cells[buddy]) != order+1 {
			cells[u] = uint8(order + 1)
			s.free[order] = append(s.free[order], s.place(r, u))
			return
		}
		cells[buddy] = 0
		u = min(u, buddy)
	}
	s.regions[r] = nil
	s.idle = append(s.idle, r)
}

// find frees all memory of a new space that has no block.
func (s *space) find(blocks []*Block) {
	const taken = 255
	for _, b := range blocks {
		r, u := s.unit(b.place)
		if s.regions[r] == nil {
			s.regions[r] = new([units]uint8)
		}
		for n := range min(len(b.mem)/unit, units) {
			s.regions[r][u+n] = taken
		}
	}
	for r := len(s.regions) - 1; r >= 0; r-- {
		cells := s.regions[r]
		if cells == nil {
			s.idle = append(s.idle, r)
			continue
		}
		for u := range cells { // gives change only cells before
			if cells[u] == taken {
				cells[u] = 0
			} else {
				s.give(s.place(r, u), 0)
			}
		}
	}
}

// trim returns the place of a free region whose memory is not needed.
func (s *space) trim() (place int, ok bool) {
	if s.cold >= len(s.idle)-keep {
		return 0, false
	}
	s.cold++
	return s.place(s.idle[s.cold-1], 0), true
}
