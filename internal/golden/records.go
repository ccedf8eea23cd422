package golden

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// Release is the commit whose drivers wrote the records, and the directory in testdata.
const Release = "4e58a98"

// Value is the type of their values.
type Value = drivertest.Value

// Retain is how long the dead are held where a record's Retained says so.
const Retain = 40 * 365 * 24 * time.Hour

// Written is when the records were created. They expire at Expires, Extended where they were
// touched, and at Died where they are dead. These are so far apart that stores whose clock
// is the machine's can hold them: an instant after Extended plus Retain is beyond Couchbase.
var (
	Written  = driver.Floor(time.Date(2025, 11, 12, 13, 14, 15, 678e6, time.UTC))
	Died     = Written.Add(10 * time.Minute)
	Expires  = driver.Floor(time.Date(2049, 12, 31, 23, 59, 58, 901e6, time.UTC))
	Extended = driver.Floor(time.Date(2050, 1, 31, 23, 59, 58, 901e6, time.UTC))
)

// First is the value of each record, Second that with which some were overwritten.
var (
	First  = value(1)
	Second = value(2)
)

func value(n int64) Value {
	return Value{
		Text: fmt.Sprintf("value %d, \"quoted\", déjà-vu, 日本語, 🙂, <&>\n", n), Count: 1<<52 + n, Ratio: 0.1, Flag: true,
		Bytes: []byte{0, 0xff, '"'}, List: []string{"a", "", "b"}, Map: map[string]string{"k": "v", "K": ""},
		When:   time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.UTC),
		Nested: drivertest.Nested{Name: "inner", Level: -1},
	}
}

// Record is one that was written. Its key is its name.
type Record struct {
	Name     string
	Value    Value
	Expires  driver.Instant // before the store's rounding
	Retained bool           // the driver that wrote it last had Retain
}

// Records are all of them; README.md says by which calls they came about.
var Records = []Record{
	{"inserted", First, Expires, false},
	{"touched", First, Extended, false},
	{"replaced", Second, Extended, false},
	{"upserted", Second, Extended, false},
	{"adopted", First, Extended, false},
	{"endless", First, 0, false},
	{"retained", First, Expires, true},
	{"retained-touched", First, Extended, true},
	{"retained-replaced", Second, Extended, true},
	{"retained-once", First, Extended, false},
	{"dead", First, Died, true},
	{"lowered", First, Died, true},
	{"revived", Second, Expires, true},
}
