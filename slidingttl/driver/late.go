package driver

import "errors"

// ErrLate says that the record's life ended before the store answered a write over it. Without
// [ErrAmbiguous], from an Insert or Overwrite, it says that the life which it was to write had ended
// by the store's time, that nothing was written, and that the driver now knows that time.
var ErrLate = errors.New("the record's life ended before the store answered")

// PlanAgain reports whether a call that ended with err may succeed when it is planned again.
//
// That is so after an ErrLate, by the driver's clock as it is then.
func PlanAgain(err error) bool { return errors.Is(err, ErrLate) && !errors.Is(err, ErrAmbiguous) }
