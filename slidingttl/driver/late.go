package driver

import "errors"

// ErrLate says that the record's life ended before the store answered a write over it. Without
// [ErrAmbiguous], from an Insert or Overwrite, it says that the life which it was to write had ended
// by the store's time, that nothing was written, and that the driver now knows that time.
var ErrLate = errors.New("the record's life ended before the store answered")
