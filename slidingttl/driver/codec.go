package driver

// Codec turns values into a store's bytes and back. It is used concurrently. Decode may keep b.
type Codec interface {
	Encode(v any) ([]byte, error)
	Decode(b []byte, into any) error
}
