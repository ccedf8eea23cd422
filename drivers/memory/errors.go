package memory

import "errors"

// ErrClosed says that the driver has been closed.
var ErrClosed = errors.New("memory: driver is closed")
