package memory

import (
	"math/big"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw shows a value by its own encoding, that of its pointer too.
func TestRawByPointer(t *testing.T) {
	type purse struct{ Total big.Int }
	d, err := New[purse](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	now := driver.Ceil(time.Now())
	if _, err := d.Insert(t.Context(), "k", purse{*big.NewInt(17)}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
		t.Fatal(err)
	}
	if raw, err := d.Raw(t.Context(), "k"); err != nil || string(raw.Value) != `{"Total":17}` {
		t.Errorf("%s, %v; want 17", raw.Value, err)
	}
}
