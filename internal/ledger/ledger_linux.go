// Package ledger has a list of records in memory. The memory outlives the writer: the next server makes its state from the records. The
// writer may be killed between any two instructions. The list has each appended record, whole and in order.
//
// A ledger is two files of memory (memfd_create(2)) and a word with the number of the file in force. A record is its length, stored
// last, and its bytes:
//
//	┌────────┬─────────────────┬────────┬───────────┬────────┐
//	│ length │ record, padded  │ length │ record    │ 0      │  ← the first length of 0 is the end
//	└────────┴─────────────────┴────────┴───────────┴────────┘
//
// A killed process cannot tear its stores, and no record survives the machine. So there is no checksum, and nothing is
// synchronized with a disk.
//
// Compact removes records without a meaning. Compact copies the other records to the other file, and then stores the number of
// the other file: this store is the switch.
package ledger

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// MaxBytes bounds the records of a ledger with their lengths, in bytes.
	MaxBytes = 1 << 30
	// step is by how much a file grows, in bytes.
	step = 1 << 20
	// spare is how many bytes the file that is not in force keeps, at most. The first store to a page of memory costs as much as ten records.
	spare = 4 << 20
	// header is the length before a record, in bytes. Each header is aligned to its own size.
	header = 8
)

// ErrFull means: a ledger has MaxBytes, and has to be compacted.
var ErrFull = fmt.Errorf("ledger: the records take %d bytes, and a ledger has no room for more", MaxBytes)

// Ledger is the writer's view of a ledger. Any goroutine may call its methods. At a time, a single process may have a Ledger of the
// same files.
type Ledger struct {
	// Fixed by Open.
	which *atomic.Uint32 // the file in force: 0 or 1
	files [2]*os.File
	maps  [2][]byte // MaxBytes of each file; only the part before its size may be touched

	mu    sync.Mutex // guards the fields below, and the files
	sizes [2]int
	end   int // of the records in the file in force
}

// strike is called wherever a death makes a difference. Tests replace strike.
var strike = func() {}

// Open returns the ledger of two files and of a word, which outlive this process. Files without a byte make an empty
// ledger. The word is 0 at first, and belongs to the ledger. Open ends a Compact of a killed process.
func Open(which *atomic.Uint32, files [2]*os.File) (*Ledger, error) {
	l := &Ledger{which: which, files: files}
	if n := which.Load(); n > 1 {
		return nil, fmt.Errorf("ledger: the word says that file %d counts, and there are two files, 0 and 1", n)
	}
	for i, f := range files {
		st, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
		if l.sizes[i] = int(st.Size()); l.sizes[i] > MaxBytes {
			return nil, fmt.Errorf("ledger: file %d has %d bytes, the limit is %d", i, st.Size(), MaxBytes)
		}
		if l.maps[i], err = unix.Mmap(int(f.Fd()), 0, MaxBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
			return nil, errors.Join(fmt.Errorf("ledger: map file %d: %w", i, err), l.Close())
		}
	}
	now := l.now()
	err := l.resize(1-now, 0)
	if err == nil && l.sizes[now] == 0 {
		err = l.resize(now, step)
	}
	for n := l.length(now, 0); err == nil && n > 0; n = l.length(now, l.end) {
		if l.end += slot(n); l.end+header > l.sizes[now] {
			err = fmt.Errorf("ledger: a record of %d bytes goes beyond the file, which has %d", n, l.sizes[now])
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close gives the address space back. The records stay, as long as somebody has the files open.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for i, m := range l.maps {
		if m != nil {
			err = errors.Join(err, unix.Munmap(m))
		}
		l.maps[i] = nil
	}
	return err
}

func (l *Ledger) now() int { return int(l.which.Load()) }

// word is the header at an offset of a file.
func (l *Ledger) word(file, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&l.maps[file][at]))
}

// length returns the length of the record at an offset; 0: the end of the records.
func (l *Ledger) length(file, at int) int { return int(l.word(file, at).Load()) }

// slot returns how many bytes a record takes, with its header.
func slot(n int) int { return header + (n+header-1)&^(header-1) }

// resize gives a file n bytes. New bytes are 0.
func (l *Ledger) resize(file, n int) error {
	if n == l.sizes[file] {
		return nil
	}
	if err := l.files[file].Truncate(int64(n)); err != nil {
		return fmt.Errorf("ledger: %d bytes for a file: %w", n, err)
	}
	l.sizes[file] = n
	return nil
}

// Size returns how many bytes the records take, with their headers.
func (l *Ledger) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Append adds a record of a byte at least. After Append has returned nil, the record outlives this process.
func (l *Ledger) Append(record []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, err := l.append(l.now(), l.end, record)
	if err == nil {
		l.end = end
	}
	return err
}

// append adds a record to a file, and returns where the next record begins.
func (l *Ledger) append(file, at int, record []byte) (end int, err error) {
	if len(record) == 0 {
		return at, errors.New("ledger: a record without a byte")
	}
	end = at + slot(len(record))
	if end+header > MaxBytes {
		return at, ErrFull
	}
	if end+header > l.sizes[file] {
		if err := l.resize(file, min((end+header+step-1)/step*step, MaxBytes)); err != nil {
			return at, err
		}
		strike()
	}
	copy(l.maps[file][at+header:], record)
	strike()
	l.word(file, end).Store(0) // somebody who died before this record may have written there
	strike()
	l.word(file, at).Store(uint64(len(record)))
	strike()
	return end, nil
}

// Replay calls do with each record, the oldest first, and returns the first error of do. A record is valid until do returns. do calls no
// method of the ledger.
func (l *Ledger) Replay(do func(record []byte) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replay(do)
}

func (l *Ledger) replay(do func(record []byte) error) error {
	now := l.now()
	for at := 0; at < l.end; {
		n := l.length(now, at)
		if err := do(l.maps[now][at+header:][:n:n]); err != nil {
			return err
		}
		at += slot(n)
	}
	return nil
}

// Compact removes each record for which counts is false. counts is called with each record, the oldest first; a record is valid until counts
// returns. If the system fails, the ledger stays unchanged. counts calls no method of the ledger.
func (l *Ledger) Compact(counts func(record []byte) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	other := 1 - now
	err := l.resize(other, max(l.sizes[other], step))
	end := 0
	if err == nil {
		l.word(other, 0).Store(0)
		err = l.replay(func(record []byte) (err error) {
			if counts(record) {
				end, err = l.append(other, end, record)
			}
			return err
		})
	}
	if err != nil {
		return errors.Join(err, l.resize(other, 0))
	}
	strike()
	l.which.Store(uint32(other))
	strike()
	l.end = end
	err = l.resize(now, min(l.sizes[now], spare))
	strike()
	return err
}
