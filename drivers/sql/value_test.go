package sql

import (
	"math/big"
	"testing"
)

// A value in a column of JSON is encoded by its own methods, those of its pointer too.
func TestJSONByPointer(t *testing.T) {
	type purse struct{ Total big.Int }
	var c codec[purse]
	args, err := c.encode(purse{*big.NewInt(17)})
	if err != nil || len(args) != 1 || args[0] != `{"Total":17}` {
		t.Errorf("%v, %v; want a text of JSON with 17", args, err)
	}
}
