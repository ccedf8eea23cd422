package dynamodb

import (
	"reflect"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// prefixCode is the code of the functions that Prefix returns. Another function's prefix cannot be
// told by calling it: that of a composite key may add one to some keys alone, and panic on others.
var prefixCode = reflect.ValueOf(Prefix("")).Pointer()

// prefix returns what a puts before the record's key, and whether it only does that.
func (a *KeyAttribute) prefix() (prefix string, ok bool) {
	switch {
	case a.Name == "":
		return "", false
	case a.Of == nil:
		return "", true
	case reflect.ValueOf(a.Of).Pointer() == prefixCode:
		return a.Of(""), true
	}
	return "", false
}

// checkKeyOf reports a layout in which the keys of items cannot be found again.
func (o *Options) checkKeyOf() error {
	_, partition := o.PartitionKey.prefix()
	_, sort := o.SortKey.prefix()
	if o.KeyOf != nil || partition || sort {
		return nil
	}
	return &driver.InvalidError{
		Field: "Options.KeyOf",
		Value: "nil",
		Rule:  "is required to find keys again, unless PartitionKey.Of or SortKey.Of is nil or a Prefix",
	}
}

// recordKey returns the record's key whose primary key is k. Items of other programs reach the
// caller's functions here; one that panics on a key has no record under it.
func (d *core) recordKey(k primaryKey) (key string, ok bool) {
	defer func() {
		if recover() != nil {
			key, ok = "", false
		}
	}()
	o := &d.opts
	if o.KeyOf != nil {
		if key, ok = o.KeyOf(k.partition, k.sort); !ok {
			return "", false
		}
		again, err := d.primaryKey(key)
		return key, err == nil && again == k
	}
	for _, a := range []struct {
		*KeyAttribute
		value string
	}{{&o.PartitionKey, k.partition}, {&o.SortKey, k.sort}} {
		prefix, ok := a.prefix()
		if !ok {
			continue
		}
		key, ok := strings.CutPrefix(a.value, prefix)
		if !ok {
			continue
		}
		if again, err := d.primaryKey(key); err == nil && again == k {
			return key, true
		}
	}
	return "", false
}
