package dynamodb

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// names are the substitutes for attribute names, some of which are reserved words, as
// requests share them. A request must name no more than it uses.
type names struct{ key, expiry, all map[string]string }

func newNames(o Options) names {
	return names{
		key:    map[string]string{"#k": o.PartitionKey.Name, "#e": o.Expiry},
		expiry: map[string]string{"#e": o.Expiry},
		all:    map[string]string{"#k": o.PartitionKey.Name, "#e": o.Expiry, "#c": o.CreatedAt, "#v": o.Version},
	}
}

// condition is a condition expression, with the values it speaks of.
type condition struct {
	text   string
	values map[string]types.AttributeValue
}

// existing asks for an item. Without it, a condition on attributes that a record of
// another program lacks would be met where there is nothing at all.
func existing() condition { return condition{text: "attribute_exists(#k)"} }

func (c *condition) set(name string, av types.AttributeValue) string {
	if c.values == nil {
		c.values = make(map[string]types.AttributeValue, 8)
	}
	c.values[name] = av
	return name
}

func (c *condition) and(text string) {
	if c.text != "" {
		c.text += " AND "
	}
	c.text += text
}

// alive asks for a record that expires after now. Expiries of another type than
// Number are on neither side of a Number.
func (c *condition) alive(now driver.Instant) {
	c.and("#e > " + c.set(":now", seconds(now)))
}

// life asks for a record of life l, alive at now, in the forms usual for it.
func (c *condition) life(l driver.Life, now driver.Instant) {
	if l.CreatedAt == 0 {
		c.exactly("#c", nil)
	} else {
		text := "#c IN ("
		for i, form := range usual(l.CreatedAt) {
			if i > 0 {
				text += ", "
			}
			text += c.set(":c"+strconv.Itoa(i), form)
		}
		c.and(text + ")")
	}
	if l.ExpiresAt == 0 {
		c.exactly("#e", nil)
	} else {
		c.exactly("#e", seconds(l.ExpiresAt))
		c.alive(now)
	}
}

// version asks for version v.
func (c *condition) version(v driver.Version) {
	if v == 0 {
		c.exactly("#v", nil)
	} else {
		c.exactly("#v", versionNumber(v))
	}
}

// exactly asks for the very attribute av under name, nil for none.
func (c *condition) exactly(name string, av types.AttributeValue) {
	if av == nil {
		c.and("attribute_not_exists(" + name + ")")
	} else {
		c.and(name + " = " + c.set(":is"+name[1:], av))
	}
}
