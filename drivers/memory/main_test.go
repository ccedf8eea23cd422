package memory

import (
	"testing"
	"unsafe"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sameBytes(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
