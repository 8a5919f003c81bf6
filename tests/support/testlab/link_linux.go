package testlab

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"time"
)

// A Wire is the treatment of packets by a link. The zero Wire carries each at once.
type Wire struct {
	Cut   bool          // the link carries nothing, and tells nobody
	Loss  float64       // the share of lost packets
	Delay time.Duration // of each packet
	Rate  int           // bytes per second; 0: as fast as the test can. packets that would wait for more than a second are lost
}

// A Link carries packets in one direction, in order.
type Link struct {
	lab *Lab

	mu      sync.Mutex
	wire    Wire
	free    time.Time // when a link with a rate has sent all before
	carried int64     // bytes
	lost    int64     // packets
	late    chan parcel
}

// A parcel is a packet on its way.
type parcel struct {
	at     time.Time
	packet []byte
	next   func([]byte)
}

func newLink(l *Lab) *Link { return &Link{lab: l} }

// Set changes the treatment of later packets. Packets on their way arrive.
func (k *Link) Set(w Wire) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wire = w
}

// Carried returns how many bytes of packets the link has carried.
func (k *Link) Carried() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.carried
}

// Lost returns how many packets the link has lost.
func (k *Link) Lost() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// carry hands a packet to next, at once or later. The caller uses the bytes again. A nil Link has no faults.
func (k *Link) carry(packet []byte, next func([]byte)) {
	if k == nil {
		next(packet)
		return
	}
	if p, ok := k.take(packet, next); !ok {
		next(packet)
	} else if p.packet != nil {
		select {
		case k.late <- p:
		case <-k.lab.over:
		}
	}
}

// take decides about a packet. take returns false for a packet without delay, and a parcel without a packet for a lost one.
func (k *Link) take(packet []byte, next func([]byte)) (parcel, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, now := k.wire, time.Now()
	at := now.Add(w.Delay)
	if w.Rate > 0 {
		if k.free.Before(now) {
			k.free = now
		}
		if k.free.Sub(now) > time.Second {
			w.Cut = true
		} else {
			k.free = k.free.Add(time.Duration(len(packet)) * time.Second / time.Duration(w.Rate))
			at = k.free.Add(w.Delay)
		}
	}
	if w.Cut || w.Loss > 0 && rand.Float64() < w.Loss {
		k.lost++
		return parcel{}, true
	}
	k.carried += int64(len(packet))
	if at.Equal(now) && len(k.late) == 0 {
		return parcel{}, false
	}
	if k.late == nil {
		k.late = make(chan parcel, 4096)
		k.lab.all.Go(k.deliver)
	}
	return parcel{at, bytes.Clone(packet), next}, true
}

// deliver hands late packets on when they are due.
func (k *Link) deliver() {
	for {
		select {
		case p := <-k.late:
			select {
			case <-time.After(time.Until(p.at)):
				p.next(p.packet)
			case <-k.lab.over:
				return
			}
		case <-k.lab.over:
			return
		}
	}
}
