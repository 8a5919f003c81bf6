package child

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slots is memory of a few starts that outlives this program. The kernel stores the pid of a new child there, before the child runs
// (CLONE_PARENT_SETTID of clone(2)). So the next program knows each child whose birth nobody has told the holder.
//
// A page begins with the count of all trees, for their tags. The slots follow:
//
//	offset 0  pid of the child; 0: not forked
//	       4  length of the name, and 1 << 16 if the plan of the jail may have been sent; 0: the slot is free
//	       8  name of the child
type slots struct {
	memory []byte
	free   chan int // offsets
	once   sync.Once
}

const (
	// slotsName is the name of the memory at the holder. Another layout has another name.
	slotsName = "starts1"
	// slotCount is more than the starts in flight: turnsMost, and those with a forker.
	slotCount = 128
	slotSize  = 256
	slotsFrom = 4 << 10
	slotsSize = slotsFrom + slotCount*slotSize
)

// openSlots returns the memory that the holder keeps, or has it keep new memory. Without a holder, there is none.
func openSlots(cfg HostConfig) (*slots, error) {
	if cfg.Holder == nil {
		return nil, nil
	}
	fd := -1
	for _, f := range cfg.Found {
		if kept, ok := f.Files[slotsName]; ok && f.ID == "" {
			fd = kept
		}
	}
	if fd < 0 {
		var err error
		if fd, err = unix.MemfdCreate(slotsName, unix.MFD_CLOEXEC); err != nil {
			return nil, err
		}
		if err = unix.Ftruncate(fd, slotsSize); err == nil {
			err = cfg.Holder.KeepNoted("", "", map[string]int{slotsName: fd})
		}
		if err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	defer unix.Close(fd)
	memory, err := unix.Mmap(fd, 0, slotsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	s := &slots{memory: memory, free: make(chan int, slotCount)}
	for i := range slotCount {
		if slot := s.at(slotsFrom + i*slotSize); slot.name() == "" {
			s.free <- slot.offset
		}
	}
	return s, nil
}

// close unmaps the memory. No start is under way.
func (s *slots) close() {
	if s != nil {
		s.once.Do(func() { unix.Munmap(s.memory) })
	}
}

// runs returns the count of trees; nil: this program counts them.
func (s *slots) runs() *atomic.Uint64 {
	if s == nil {
		return nil
	}
	return (*atomic.Uint64)(unsafe.Pointer(&s.memory[0]))
}

func (s *slots) at(offset int) slot { return slot{s, offset} }

// used lists the slots that are not free.
func (s *slots) used() (all []slot) {
	for i := range slotCount {
		if slot := s.at(slotsFrom + i*slotSize); slot.name() != "" {
			all = append(all, slot)
		}
	}
	return all
}

// take returns a free slot, now with a name.
func (s *slots) take(name string) (slot, error) {
	if len(name) == 0 || len(name) > slotSize-8 {
		return slot{}, fmt.Errorf("%w: name %q", ErrArgument, name)
	}
	slot := s.at(<-s.free)
	slot.pid().Store(0)
	copy(s.memory[slot.offset+8:], name)
	slot.length().Store(uint32(len(name))) // last: from now on the slot is used
	return slot, nil
}

// slot is the place of a start.
type slot struct {
	slots  *slots
	offset int
}

func (s slot) pid() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&s.slots.memory[s.offset]))
}

// length is the word with the length of the name.
func (s slot) length() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&s.slots.memory[s.offset+4]))
}

func (s slot) name() string {
	n := int(s.length().Load() & 0xffff)
	return string(s.slots.memory[s.offset+8:][:min(n, slotSize-8)])
}

// send notes that the plan of a jail may have been sent.
func (s slot) send() { s.length().Or(1 << 16) }

func (s slot) sent() bool { return s.length().Load()>>16 != 0 }

// leave frees the slot.
func (s slot) leave() {
	s.length().Store(0)
	s.slots.free <- s.offset
}
