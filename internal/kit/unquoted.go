package kit

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Unquoted hides the text of a codec's error, which may quote a record.
type Unquoted struct{ Err error }

func (e Unquoted) Error() string {
	if field, ok := errors.AsType[*json.UnmarshalTypeError](e.Err); ok {
		return fmt.Sprintf("field %q does not fit Go type %s", field.Field, field.Type)
	}
	return fmt.Sprintf("%T", e.Err)
}

// Unwrap returns the error itself.
func (e Unquoted) Unwrap() error { return e.Err }
