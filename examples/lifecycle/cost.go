package main

import (
	"flag"
	"fmt"
	"time"
)

// costs are the inputs of what events cost, in the forms that price lists have.
type costs struct {
	records float64 // begun in a year
	size    float64 // bytes of one, as the store bills them
	touches float64 // of one in its life
	packed  float64 // bytes of one in a Parquet file, by its size

	store   float64 // a GB of the store in a month
	write   float64 // a million write request units, of 1 KB each
	archive float64 // a GB of the archive in a month

	Source string // of the prices
}

// listPrices are AWS's, and a year of the system that this example is after.
var listPrices = costs{
	records: 1.8e6, size: 4096, touches: 2, packed: 0.25,
	store: 0.25, write: 0.625, archive: 0.023,
	Source: "AWS price list, us-east-1, on demand: AmazonDynamoDB TimedStorage-ByteHrs, AmazonDynamoDB WriteRequestUnits, AmazonS3 TimedStorage-ByteHrs",
}

// flags has the inputs read from the command line.
func (c *costs) flags(f *flag.FlagSet) {
	f.Float64Var(&c.records, "cost-records", c.records, "for the costs: events begun in a year")
	f.Float64Var(&c.size, "cost-size", c.size, "for the costs: bytes of an event")
	f.Float64Var(&c.touches, "cost-touches", c.touches, "for the costs: touches of an event in its life")
	f.Float64Var(&c.packed, "cost-packed", c.packed, "for the costs: bytes of an event in the archive, by its size")
	f.Float64Var(&c.store, "price-store", c.store, "dollars for a GB of the store in a month")
	f.Float64Var(&c.write, "price-write", c.write, "dollars for a million write request units")
	f.Float64Var(&c.archive, "price-archive", c.archive, "dollars for a GB of the archive in a month")
	f.StringVar(&c.Source, "price-source", c.Source, "where the prices are from")
}

// costRow is a line of the table: dollars a month, after one year and after five.
type costRow struct {
	Name, One, Five string
	Sum             bool
}

// stay is how much of a year an event is in the store that is visited at its beginning alone.
func stay() float64 {
	r := rulesOf(24 * time.Hour)
	return min(1, (r.active.IdleGrace+r.active.Slack+r.history).Hours()/24/365)
}

// Rows are the lines. A delete by the store's TTL, and a read of its stream by Lambda, cost nothing.
func (c costs) Rows() []costRow {
	const gb = 1 << 30
	begun := c.records * c.size / gb // GB a year
	units := float64(int64((c.size + 1023) / 1024))
	held := begun * stay() * c.store
	touched := c.records / 12 * c.touches * units / 1e6 * c.write
	archived := func(years float64) float64 { return begun * (years - stay()) * c.packed * c.archive }
	row := func(name string, sum bool, after func(years float64) float64) costRow {
		return costRow{name, fmt.Sprintf("$%.2f", after(1)), fmt.Sprintf("$%.2f", after(5)), sum}
	}
	return []costRow{
		row("Kept: all in the store", true, func(years float64) float64 { return begun * years * c.store }),
		row("With a life: active and history in the store", false, func(float64) float64 { return held }),
		row("With a life: touches", false, func(float64) float64 { return touched }),
		row("With a life: the archive", false, archived),
		row("With a life: together", true, func(years float64) float64 { return held + touched + archived(years) }),
	}
}

// Million is how many millions begin in a year.
func (c costs) Million() string { return fmt.Sprintf("%.3g", c.records/1e6) }

// Inputs says what is reckoned with.
func (c costs) Inputs() string {
	return fmt.Sprintf("an event is %.0f bytes, touched %.3g times, %.0f days in the store, and %.3g of its size in the archive; "+
		"$%g a GB and month in the store, $%g a million write units, $%g a GB and month in the archive",
		c.size, c.touches, stay()*365, c.packed, c.store, c.write, c.archive)
}
