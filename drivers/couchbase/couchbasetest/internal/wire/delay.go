package wire

import (
	"net"
	"slices"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
)

type delayedResponse struct {
	due      time.Time
	released <-chan struct{} // nil: it waits for its time alone
	packet   memd.Packet
}

// writeLater holds a copy of p back for d, and until released is closed. Once a connection
// has held a response back, all later ones take the same way, so that they stay in order.
func (c *Conn) writeLater(p *memd.Packet, d time.Duration, released <-chan struct{}) error {
	if c.delayed == nil {
		// Room for as many as gocb sends ahead of the answers (its queue).
		c.delayed = make(chan delayedResponse, 2048)
		c.delayDone = make(chan struct{})
		go c.sendDelayed()
	}
	r := delayedResponse{due: time.Now().Add(d), released: released, packet: *p}
	r.packet.Extras = slices.Clone(r.packet.Extras)
	r.packet.Value = slices.Clone(r.packet.Value)
	if r.packet.ServerDurationFrame != nil {
		took := *r.packet.ServerDurationFrame
		r.packet.ServerDurationFrame = &took
	}
	select {
	case c.delayed <- r:
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *Conn) sendDelayed() {
	defer close(c.delayDone)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case r := <-c.delayed:
			timer.Reset(time.Until(r.due))
			select {
			case <-timer.C:
			case <-c.closed:
				return
			}
			if r.released != nil {
				select {
				case <-r.released:
				case <-c.closed:
					return
				}
			}
			if err := c.write(&r.packet); err != nil {
				c.Close()
				return
			}
			if len(c.delayed) > 0 {
				continue
			}
			c.wmu.Lock()
			err := c.bw.Flush()
			c.wmu.Unlock()
			if err != nil {
				c.Close()
				return
			}
		case <-c.closed:
			return
		}
	}
}
