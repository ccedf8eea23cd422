package hot

import "github.com/slidingttl/slidingttl/slidingttl/driver"

// capabilities are the optional ones that a wrapped driver has; nil are those that it has
// not.
type capabilities[T any] struct {
	upserter    driver.Upserter[T]
	overwriter  driver.Overwriter[T]
	batchGetter driver.BatchGetter[T]
	readToucher driver.ReadToucher[T]
	remover     driver.Remover[T]
	clock       driver.Clock
	checker     driver.Checker
	scanner     driver.Scanner
	rawReader   driver.RawReader
	mender      driver.Mender
}

func capabilitiesOf[T any](d driver.Driver[T]) (c capabilities[T]) {
	c.upserter, _ = driver.As[driver.Upserter[T]](d)
	c.overwriter, _ = driver.As[driver.Overwriter[T]](d)
	c.batchGetter, _ = driver.As[driver.BatchGetter[T]](d)
	c.readToucher, _ = driver.As[driver.ReadToucher[T]](d)
	c.remover, _ = driver.As[driver.Remover[T]](d)
	c.clock, _ = driver.As[driver.Clock](d)
	c.checker, _ = driver.As[driver.Checker](d)
	c.scanner, _ = driver.As[driver.Scanner](d)
	c.rawReader, _ = driver.As[driver.RawReader](d)
	c.mender, _ = driver.As[driver.Mender](d)
	return c
}

// As implements driver.Wrapper. What reads or writes records by key goes by way of what is
// held; a scan, a raw record and the clock are the wrapped driver's own. A driver.Local's reads would
// pass by what is held, to save nothing.
func (d *Driver[T]) As(target any) bool {
	switch to := target.(type) {
	case *driver.Latest[T]:
		return give(to, driver.Latest[T](d), true)
	case *driver.Checker:
		return give(to, driver.Checker(d), true)
	case *driver.Upserter[T]:
		return give(to, driver.Upserter[T](d), d.has.upserter != nil)
	case *driver.Overwriter[T]:
		return give(to, driver.Overwriter[T](d), d.has.overwriter != nil)
	case *driver.BatchGetter[T]:
		return give(to, driver.BatchGetter[T](d), d.has.batchGetter != nil)
	case *driver.ReadToucher[T]:
		return give(to, driver.ReadToucher[T](d), d.has.readToucher != nil)
	case *driver.Remover[T]:
		return give(to, driver.Remover[T](d), d.has.remover != nil)
	case *driver.Mender:
		return give(to, driver.Mender(d), d.has.mender != nil)
	case *driver.Clock:
		return give(to, d.has.clock, d.has.clock != nil)
	case *driver.Scanner:
		return give(to, d.has.scanner, d.has.scanner != nil)
	case *driver.RawReader:
		return give(to, d.has.rawReader, d.has.rawReader != nil)
	}
	return false
}

// give sets *to to c if there is something to give.
func give[C any](to *C, c C, has bool) bool {
	if has {
		*to = c
	}
	return has
}
