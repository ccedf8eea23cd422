package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/couchbase/gocbcore/v10/memd"
)

const (
	headerLen = 24

	// Magic bytes of requests: plain, and with framing extras. The codec knows
	// the second but does not export it.
	magicRequest    = byte(memd.CmdMagicReq)
	magicRequestExt = 0x08

	// maxPacket is the largest body the server takes (its max_packet_size).
	maxPacket = 30 << 20
)

// checkHeader refuses what the codec would trust: it takes lengths as they come,
// allocates what they ask for and indexes with them.
func (c *Conn) checkHeader(h []byte) error {
	magic := h[0]
	if magic != magicRequest && magic != magicRequestExt {
		return fmt.Errorf("magic %#02x is not a request's", magic)
	}
	bodyLen := int64(binary.BigEndian.Uint32(h[8:]))
	if bodyLen > maxPacket {
		return fmt.Errorf("body of %d bytes, at most %d are allowed", bodyLen, maxPacket)
	}
	frames, key := 0, int(binary.BigEndian.Uint16(h[2:]))
	if magic == magicRequestExt {
		frames, key = int(h[2]), int(h[3])
	}
	if need := int64(frames + key + int(h[4])); need > bodyLen {
		return fmt.Errorf("framing extras, extras and key of %d bytes in a body of %d", need, bodyLen)
	}
	if frames == 0 {
		return nil
	}
	b, err := c.br.Peek(headerLen + frames)
	if err != nil {
		return err
	}
	return checkFrames(b[headerLen:])
}

// checkFrames walks framing extras: a byte of two nibbles, identifier and
// length, either of which may continue in a byte of its own.
func checkFrames(b []byte) error {
	for i := 0; i < len(b); {
		id, n := b[i]>>4, int(b[i]&0xf)
		i++
		if id == 15 {
			i++
		}
		if n == 15 {
			if i >= len(b) {
				return errors.New("framing extras cut short")
			}
			n += int(b[i])
			i++
		}
		if i += n; i > len(b) {
			return errors.New("framing extras cut short")
		}
	}
	return nil
}
