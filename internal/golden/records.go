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

// Retain is the retention of records with Retained set.
const Retain = 40 * 365 * 24 * time.Hour

// Written is when the records were created. They expire at Expires, touched ones at Extended, and
// dead ones at Died. These are so far apart that stores with the machine's clock can hold them. An
// instant after Extended plus Retain is beyond what Couchbase holds.
var (
	Written  = driver.Floor(time.Date(2025, 11, 12, 13, 14, 15, 678e6, time.UTC))
	Died     = Written.Add(10 * time.Minute)
	Expires  = driver.Floor(time.Date(2049, 12, 31, 23, 59, 58, 901e6, time.UTC))
	Extended = driver.Floor(time.Date(2050, 1, 31, 23, 59, 58, 901e6, time.UTC))
)

// First is the value of each record, and Second the value that overwrote some.
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

// Record is a record that was written. Its key is its name.
type Record struct {
	Name     string
	Value    Value
	Expires  driver.Instant // before the store's rounding
	Retained bool           // the driver that wrote it last had Retain
}

// Records are all records; README.md has the calls that wrote them.
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
