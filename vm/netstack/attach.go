package netstack

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Attach connects the segment to a network card: one Ethernet frame, without its check sequence, for each Read and
// each Write. It returns at once. An earlier card is let go of and closed first; connections live on over the new one, as over
// a cable that was pulled for a moment.
//
// The segment closes nic when it is closed itself, or when another card comes. Reading ends when nic is closed or
// at its end; other errors (the peer of a datagram socket went away, and may come back) are lost frames.
func (s *Segment) Attach(nic io.ReadWriteCloser) error {
	s.attach.Lock()
	defer s.attach.Unlock()

	if old := s.wire; old != nil {
		s.wire = nil
		old.close()
	}
	w := &wire{nic: nic, stop: make(chan struct{}), last: make(chan struct{}), sent: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.link.out.set(true)
	w.running.Add(2)
	s.work.Go(func() { defer w.running.Done(); s.receiveFrom(w) })
	s.work.Go(func() { defer w.running.Done(); defer close(w.sent); s.sendTo(w) })
	s.mu.Unlock()
	s.wire = w
	return nil
}

// Attached says whether a network card is connected.
func (s *Segment) Attached() bool { return s.link.out.isUp() }

// wire is one attached network card.
type wire struct {
	nic     io.ReadWriteCloser
	stop    chan struct{} // closed: nothing more is read or written
	once    sync.Once
	last    chan struct{} // closed: write what is queued, then end
	sent    chan struct{} // closed when nothing more is written
	running sync.WaitGroup
}

// farewell is how long the last frames of a segment may take to leave.
const farewell = 100 * time.Millisecond

// finish lets the frames that are queued leave, so that the guest learns that its connections are gone, and
// then closes the card.
func (w *wire) finish() {
	close(w.last)
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-w.sent:
	case <-timer.C: // the guest is paused, or reads nothing
	}
	w.close()
}

// end makes both goroutines stop.
func (w *wire) end() {
	w.once.Do(func() {
		close(w.stop)
		_ = w.nic.Close() // nothing is lost by an error: the frames are gone either way
	})
}

func (w *wire) close() {
	w.end()
	w.running.Wait()
}

// maxReadErrors is how many reads may fail in a row before the card counts as gone. A Unix datagram socket
// reports a peer that went away once.
const maxReadErrors = 64

// smallFrame is the size up to which a frame is copied out of the read buffer, in bytes: the
// buffer of 64 KiB would otherwise be kept for an acknowledgement.
const smallFrame = 4 << 10

// receiveFrom reads frames until the card is gone.
func (s *Segment) receiveFrom(w *wire) {
	defer func() {
		w.end()
		s.link.out.set(false)
	}()
	view := buffer.NewViewSize(maxFrame)
	defer func() { view.Release() }()
	failed := 0
	for {
		n, err := w.nic.Read(view.AsSlice())
		if err != nil {
			failed++
			if gone(err) || failed > maxReadErrors {
				s.log.Debug("network card is gone", "error", err)
				return
			}
			continue
		}
		failed = 0
		s.stats.framesIn.Add(1)
		s.stats.bytesIn.Add(uint64(n))
		b := view.AsSlice()[:n]
		length, ok := s.gate(b)
		if !ok {
			continue
		}
		var payload buffer.Buffer
		if length <= smallFrame {
			payload = buffer.MakeWithView(buffer.NewViewWithData(b[ethernetHeader:][:length]))
		} else {
			payload = split(view, length)
			view = buffer.NewViewSize(maxFrame)
		}
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: payload})
		s.link.deliver(pkt)
		pkt.DecRef()
	}
}

// headers is how much of a large packet is split off, in bytes: the IP header and the longest TCP header.
const headers = header.IPv4MinimumSize + header.TCPHeaderMaximumSize

// split makes a packet of the first length bytes behind the Ethernet header in view, which it takes over. The headers go
// into a small buffer of their own: gVisor reads them while it holds a second reference, and then copies the
// whole buffer that they are in.
func split(view *buffer.View, length int) buffer.Buffer {
	view.CapLength(ethernetHeader + length)
	view.TrimFront(ethernetHeader)
	out := buffer.MakeWithView(buffer.NewViewWithData(view.AsSlice()[:headers]))
	view.TrimFront(headers)
	_ = out.Append(view) // fails only for a buffer that is frozen
	return out
}

// sendTo writes queued frames until the card is gone.
func (s *Segment) sendTo(w *wire) {
	buf := make([]byte, 0, maxFrame)
	var batch []frame
	for more := true; more; {
		select {
		case <-w.stop:
			return
		case <-s.link.out.wake:
		case <-w.last:
			more = false
		}
		batch = s.link.out.take(batch)
		for i, f := range batch {
			buf = f.appendTo(buf[:0])
			f.release()
			_, err := w.nic.Write(buf)
			if err == nil {
				s.stats.framesOut.Add(1)
				s.stats.bytesOut.Add(uint64(len(buf)))
				continue
			}
			s.stats.lost.Add(1)
			if gone(err) {
				for _, f := range batch[i+1:] {
					f.release()
				}
				w.end()
				return
			}
		}
	}
}

// gone says whether err means that a card will never work again.
func gone(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
}
