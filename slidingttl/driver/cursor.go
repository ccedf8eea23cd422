package driver

import (
	"encoding/base64"
	"encoding/json"
)

// EncodeCursor encodes place so that no key is readable at a glance.
func EncodeCursor(place any) Cursor {
	b, _ := json.Marshal(place)
	return Cursor(base64.RawURLEncoding.EncodeToString(b))
}

// DecodeCursor is the reverse of EncodeCursor. Any other cursor is a [BadCursor].
func DecodeCursor(c Cursor, place any) error {
	b, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || json.Unmarshal(b, place) != nil {
		return BadCursor(c)
	}
	return nil
}
