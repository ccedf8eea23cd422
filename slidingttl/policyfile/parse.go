package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// set is the policies of a file, by name. It is not written to once it is whole.
type set map[string]slidingttl.Policy

// storesKey names no policy: what stands under it is of the operator's command.
const storesKey = "stores"

// parse goes through content name by name, since json.Unmarshal would take the last of
// two policies with one name.
func parse(content []byte) (set, error) {
	if err := json.Unmarshal(content, new(json.RawMessage)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	if t, _ := dec.Token(); t != json.Delim('{') { // content is JSON: no Token fails
		return nil, &slidingttl.InvalidError{Field: "content", Value: fmt.Sprintf("%T", t), Rule: "must be an object of policies by name"}
	}
	s := make(set)
	for dec.More() {
		t, _ := dec.Token()
		name := t.(string)
		if name == storesKey {
			_ = dec.Decode(new(json.RawMessage)) // content is JSON
			continue
		}
		if _, ok := s[name]; ok {
			return nil, &slidingttl.InvalidError{Field: "policy " + strconv.Quote(name), Value: "given twice", Rule: "must have a name that no other policy has"}
		}
		var p slidingttl.Policy
		err := dec.Decode(&p)
		if err == nil { // that of null, which Decode takes for no policy
			err = p.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("policy %q: %w", name, err)
		}
		s[name] = p
	}
	return s, nil
}
