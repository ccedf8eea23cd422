package cosmos

import (
	"reflect"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// prefixCode is the code of the functions that Prefix returns. Another function's prefix cannot be
// told by calling it: one that encodes or cuts the key may add nothing to some keys, and panic on
// others.
var prefixCode = reflect.ValueOf(Prefix("")).Pointer()

// prefixOf returns what a function of the layout puts before the record's key, and whether it only
// does that.
func prefixOf(of func(key string) string) (prefix string, ok bool) {
	switch {
	case of == nil:
		return "", true
	case reflect.ValueOf(of).Pointer() == prefixCode:
		return of(""), true
	}
	return "", false
}

// keyPlace is where an item has its record's key, after a prefix: in its id, or else in a property
// of the partition key.
type keyPlace struct {
	prefix string
	level  int // of the partition key; -1: the id
}

// keyPlace returns the place of the keys of items, and whether there is one.
func (o *Options) keyPlace() (keyPlace, bool) {
	if prefix, ok := prefixOf(o.ID); ok {
		return keyPlace{prefix, -1}, true
	}
	for i, p := range o.PartitionKey {
		if prefix, ok := prefixOf(p.Of); ok && p.Path != idPath {
			return keyPlace{prefix, i}, true
		}
	}
	return keyPlace{}, false
}

// checkKeyOf reports a layout in which the keys of items cannot be found again.
func (o *Options) checkKeyOf() error {
	if _, ok := o.keyPlace(); ok || o.KeyOf != nil {
		return nil
	}
	return &driver.InvalidError{
		Field: "Options.KeyOf",
		Value: "nil",
		Rule:  "is required to find keys again, unless Options.ID or a KeyProperty.Of is nil or a Prefix",
	}
}

// recordKey returns the key of the record whose item has the identity k, and why the driver refuses
// that key, if it does. Items of other programs reach the caller's functions here; one that panics
// on an item says that it is no record.
func (d *Driver[T]) recordKey(k identity) (key string, ok bool, refused error) {
	defer func() {
		if recover() != nil {
			key, ok, refused = "", false, nil
		}
	}()
	if d.opts.KeyOf != nil {
		key, ok = d.opts.KeyOf(k.id, slices.Clone(k.partition[:len(d.opts.PartitionKey)]))
	} else if place, found := d.opts.keyPlace(); found {
		text := k.id
		if place.level >= 0 {
			text = k.partition[place.level]
		}
		key, ok = strings.CutPrefix(text, place.prefix)
	}
	if !ok || d.place(key) != k {
		return "", false, nil
	}
	_, refused = d.identity(key)
	return key, true, refused
}
