package chaos

import (
	"math/rand/v2"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

const (
	// lostFor is the delay of a lost packet: the shortest time before Linux sends a packet again.
	lostFor = 200 * time.Millisecond

	minPacket, maxPacket = 1 << 10, 16 << 10 // bytes
	maxLane              = 1 << 20           // bytes in one direction of a link
)

// A shape is the delay, the speed and the loss of a link, in both directions. The link's mutex guards a shape.
type shape struct{ out, in lane }

// A lane holds the packets on their way in one direction. Packets arrive in their order: a late packet delays all later packets, as in TCP.
type lane struct {
	delay  time.Duration
	speed  float64 // bytes per second; 0: unlimited
	loss   float64
	rand   *rand.Rand
	packet int // bytes in a packet, at most
	most   int // bytes on their way, at most

	packets []packet
	bytes   int       // in packets
	free    time.Time // when the last packet has left the sender
	over    bool      // no packet follows
	err     error     // with over: the error after the last packet
}

type packet struct {
	data []byte
	due  time.Time
}

func newShape(c *plan.Chaos, seed, number uint64) *shape {
	lane := lane{delay: max(0, time.Duration(c.Delay)), speed: float64(max(0, c.Speed)), loss: c.Loss, packet: maxPacket, most: maxLane}
	if lane.speed > 0 { // a packet takes 50 ms, and a queue before the link has room for 200 ms
		lane.packet = int(min(maxPacket, max(minPacket, lane.speed/20)))
		lane.most = int(min(maxLane, max(float64(2*lane.packet), lane.speed*(lane.delay.Seconds()+0.2))))
	}
	s := &shape{out: lane, in: lane}
	s.out.rand = rand.New(rand.NewPCG(seed, 2*number))
	s.in.rand = rand.New(rand.NewPCG(seed, 2*number+1))
	return s
}

func (l *lane) empty() bool { return len(l.packets) == 0 }

// room returns how many of n bytes push takes now. full means none.
func (l *lane) room(n int) (room int, full bool) {
	room = min(n, l.packet, l.most-l.bytes)
	return max(0, room), room <= 0
}

// push sends a copy of data. data must not be longer than room's result.
func (l *lane) push(data []byte) {
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	if l.speed > 0 {
		l.free = l.free.Add(time.Duration(float64(len(data)) / l.speed * float64(time.Second)))
	}
	due := l.free.Add(l.delay)
	if l.loss > 0 && l.rand.Float64() < l.loss {
		due = due.Add(lostFor)
	}
	l.packets = append(l.packets, packet{append([]byte(nil), data...), due})
	l.bytes += len(data)
}

// finish sets the error after the last packet.
func (l *lane) finish(err error) { l.over, l.err = true, err }

// pop moves bytes of the first packet to p if the packet has arrived. After the last packet pop returns the error of finish. Otherwise wake
// is the time at which the first packet arrives; zero: there is no packet.
func (l *lane) pop(p []byte) (n int, wake time.Time, err error) {
	switch {
	case l.empty() && l.over:
		return 0, time.Time{}, l.err
	case l.empty():
		return 0, time.Time{}, nil
	case !over(l.packets[0].due):
		return 0, l.packets[0].due, nil
	}
	first := &l.packets[0]
	n = copy(p, first.data)
	first.data = first.data[n:]
	l.bytes -= n
	if len(first.data) == 0 {
		l.packets[0] = packet{}
		l.packets = l.packets[1:]
	}
	return n, time.Time{}, nil
}

// pumpOut writes arrived packets to the socket.
func (l *link) pumpOut() {
	buf := make([]byte, l.shape.out.packet)
	out := &l.shape.out
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == open || l.state == silent {
		n, wake, _ := out.pop(buf)
		switch {
		case n > 0:
			l.tell() // there is room
			l.mu.Unlock()
			_, err := l.put(buf[:n])
			l.mu.Lock()
			if err != nil { // the server's end; the reader sees the error, too
				out.finish(err)
				l.tell()
				return
			}
		case out.over && out.empty():
			l.mu.Unlock()
			l.socket.CloseWrite()
			l.mu.Lock()
			return
		default:
			l.wait(wake)
		}
	}
}

// pumpIn reads packets from the socket.
func (l *link) pumpIn() {
	buf := make([]byte, l.shape.in.packet)
	in := &l.shape.in
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == open || l.state == silent {
		room, full := in.room(len(buf))
		if full || l.state == silent {
			l.wait(time.Time{})
			continue
		}
		n, err := l.take(buf[:room])
		if n > 0 {
			in.push(buf[:n])
		}
		if err != nil {
			in.finish(err)
		}
		l.tell()
		if err != nil {
			return
		}
	}
}
