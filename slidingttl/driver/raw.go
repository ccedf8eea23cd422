package driver

import "context"

// RawReader is a driver that returns a value in the store's own form, for archives.
type RawReader interface {
	// Raw returns the record under key as it is stored, even if it is dead or unreadable. Errors:
	// ErrNotFound.
	Raw(ctx context.Context, key string) (Raw, error)
}

// Raw is a record in the store's own form.
type Raw struct {
	Meta
	Format string // of Value: "json", "dynamodb-json", "bytes"
	Value  []byte
	// Fields are the attributes that hold the life, by name, as text.
	Fields  map[string]string
	Problem error // why the record's life cannot be read, nil if it can
}
