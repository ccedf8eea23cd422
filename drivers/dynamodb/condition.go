package dynamodb

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// used returns the attribute names in an expression, by their placeholders. A request must not
// define unused ones; all names have placeholders, because they may be reserved words.
func (d *core) used(expression string) map[string]string {
	var used map[string]string
	for substitute, name := range d.names {
		if strings.Contains(expression, substitute) {
			if used == nil {
				used = make(map[string]string, len(d.names))
			}
			used[substitute] = name
		}
	}
	return used
}

// condition is a condition expression with its values.
type condition struct {
	text   string
	values map[string]types.AttributeValue
}

// over is the condition that the item is exactly found. If found is nil: that it is the record was,
// alive at now, in its usual form.
func over(found *stored, was driver.Meta, now driver.Instant) condition {
	// Without this, conditions on attributes that another program's record lacks would hold for a
	// missing item.
	c := condition{text: "attribute_exists(#k)"}
	if found != nil {
		c.exactly("#c", found.created)
		c.exactly("#e", found.expiry)
		c.exactly("#v", found.version)
		c.exactly("#x", found.retained)
		return c
	}
	if was.CreatedAt == 0 {
		c.exactly("#c", nil)
	} else {
		var forms []string
		for i, form := range formatOf(was.Version).usual(was.CreatedAt) {
			forms = append(forms, c.set(":is_c"+strconv.Itoa(i), form))
		}
		c.and("#c IN (" + strings.Join(forms, ", ") + ")")
	}
	if was.ExpiresAt == 0 {
		c.exactly("#e", nil)
	} else {
		c.set(":is_e", seconds(was.ExpiresAt))
		c.set(":now", seconds(now))
		c.and("(" + retaining + " AND #x.#at = :is_e AND #x.#at > :now OR NOT " + retaining + " AND #e = :is_e AND #e > :now)")
	}
	c.exactly("#v", versionOf(was.Version))
	return c
}

// exactly adds the condition that attribute name is av; nil: absent.
func (c *condition) exactly(name string, av types.AttributeValue) {
	if av == nil {
		c.and("attribute_not_exists(" + name + ")")
	} else {
		c.and(name + " = " + c.set(":is_"+name[1:], av))
	}
}

func (c *condition) and(text string) {
	if c.text != "" {
		c.text += " AND "
	}
	c.text += text
}

func (c *condition) set(name string, av types.AttributeValue) string {
	if c.values == nil {
		c.values = make(map[string]types.AttributeValue, 8)
	}
	c.values[name] = av
	return name
}
