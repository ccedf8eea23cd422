package cosmostest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxPatch is how many operations a patch may have.
const maxPatch = 10

type patchOperation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// patch returns found after the patch in the body of c, and the paths that it wrote.
func (n *container) patch(c *call, found *item) (doc map[string]any, paths []string, refusal *answer) {
	wrong := func(r answer) (map[string]any, []string, *answer) { return nil, nil, &r }
	var in struct {
		Condition  string           `json:"condition"`
		Operations []patchOperation `json:"operations"`
	}
	into := any(&in)
	if bytes.HasPrefix(bytes.TrimSpace(c.body), []byte("[")) {
		into = &in.Operations // the form of a patch without a condition
	}
	if err := json.Unmarshal(c.body, into); err != nil {
		return wrong(badRequest("The patch is not JSON: %v", err))
	}
	if len(in.Operations) == 0 || len(in.Operations) > maxPatch {
		return wrong(badRequest("The patch has %d operations: must have 1 to %d.", len(in.Operations), maxPatch))
	}
	if in.Condition != "" {
		q, err := parse("SELECT * " + in.Condition)
		if err != nil {
			return wrong(badRequest("The condition is invalid: %v", err))
		}
		if !q.matches(found.doc, nil) {
			r := preconditionFailed()
			r.charge = readCharge(len(found.body))
			return nil, nil, &r
		}
	}
	doc = clone(found.doc).(map[string]any)
	for _, op := range in.Operations {
		if n.fixed(op.Path) {
			return wrong(badRequest("The path of a patch operation must not be the id, the partition key or the service's own."))
		}
		var value any
		if op.Op != "remove" {
			if op.Value == nil || json.Unmarshal(op.Value, &value) != nil {
				return wrong(badRequest("A patch operation %q needs a value.", op.Op))
			}
		}
		parent, name, err := parentOf(doc, op.Path)
		if err == nil {
			err = apply(parent, name, op.Op, value)
		}
		if err != nil {
			return wrong(badRequest("For a patch operation: %v", err))
		}
		paths = append(paths, op.Path)
	}
	return doc, paths, nil
}

// fixed reports whether the value at path cannot be patched.
func (n *container) fixed(path string) bool {
	return path == "/id" || slices.Contains([]string{"/_rid", "/_self", "/_etag", "/_ts", "/_attachments"}, path) ||
		slices.ContainsFunc(n.paths, func(key string) bool { return key == path || strings.HasPrefix(key, path+"/") })
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for name, value := range v {
			v[name] = clone(value)
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i, value := range v {
			v[i] = clone(value)
		}
		return v
	}
	return v
}

// place of a value: in an object, or in an array that is itself in holder.
type parent struct {
	object map[string]any
	array  []any
	put    func([]any) // replaces the array
}

var pointer = strings.NewReplacer("~1", "/", "~0", "~")

// parentOf returns the object or array that holds the value at path, and the value's name there.
func parentOf(doc map[string]any, path string) (parent, string, error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || rest == "" {
		return parent{}, "", fmt.Errorf("a path must begin with / and a name")
	}
	at := parent{object: doc}
	names := strings.Split(rest, "/")
	for _, name := range names[:len(names)-1] {
		name = pointer.Replace(name)
		value, there := at.get(name)
		if !there {
			return parent{}, "", fmt.Errorf("a part of the path is missing")
		}
		holder := at
		switch value := value.(type) {
		case map[string]any:
			at = parent{object: value}
		case []any:
			at = parent{array: value, put: func(next []any) { holder.set(name, next) }}
		default:
			return parent{}, "", fmt.Errorf("a part of the path is neither object nor array")
		}
	}
	return at, pointer.Replace(names[len(names)-1]), nil
}

func (p parent) index(name string) (int, bool) {
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && i < len(p.array)
}

func (p parent) get(name string) (value any, there bool) {
	if p.object != nil {
		value, there = p.object[name]
		return value, there
	}
	if i, ok := p.index(name); ok {
		return p.array[i], true
	}
	return nil, false
}

func (p parent) set(name string, value any) {
	if p.object != nil {
		p.object[name] = value
	} else if i, ok := p.index(name); ok {
		p.array[i] = value
	}
}

// apply executes one operation. Source:
// https://learn.microsoft.com/azure/cosmos-db/partial-document-update
func apply(p parent, name, op string, value any) error {
	was, there := p.get(name)
	switch op {
	case "add":
		if p.object == nil {
			i, ok := p.index(name)
			if name == "-" || name == strconv.Itoa(len(p.array)) {
				i, ok = len(p.array), true
			}
			if !ok {
				return fmt.Errorf("add beyond the end of an array")
			}
			p.put(slices.Insert(p.array, i, value))
			return nil
		}
		p.set(name, value)
	case "set":
		if p.object == nil && name == strconv.Itoa(len(p.array)) {
			p.put(append(p.array, value))
			return nil
		}
		if p.object == nil && !there {
			return fmt.Errorf("set beyond the end of an array")
		}
		p.set(name, value)
	case "replace":
		if !there {
			return fmt.Errorf("replace of a missing value")
		}
		p.set(name, value)
	case "remove":
		if !there {
			return fmt.Errorf("remove of a missing value")
		}
		if i, ok := p.index(name); p.object == nil && ok {
			p.put(slices.Delete(p.array, i, i+1))
			return nil
		}
		delete(p.object, name)
	case "incr":
		by, ok := value.(float64)
		sum, isNumber := was.(float64)
		if !ok || there && !isNumber || math.IsInf(sum+by, 0) {
			return fmt.Errorf("incr needs numbers")
		}
		p.set(name, sum+by)
	default:
		return fmt.Errorf("an operation %q is not supported", op)
	}
	return nil
}
