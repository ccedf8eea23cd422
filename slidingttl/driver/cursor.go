package driver

import (
	"encoding/base64"
	"encoding/json"
)

// EncodeCursor returns place as text in which no key can be read at a glance.
func EncodeCursor(place any) Cursor {
	b, _ := json.Marshal(place)
	return Cursor(base64.RawURLEncoding.EncodeToString(b))
}

// DecodeCursor reads into place what EncodeCursor was given. Another cursor is a [BadCursor].
func DecodeCursor(c Cursor, place any) error {
	b, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || json.Unmarshal(b, place) != nil {
		return BadCursor(c)
	}
	return nil
}
