package cosmostest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
)

// progress is the position of a query, in its continuation token. It is given by hashes, so it
// stays valid for the parts of a physical partition that was split.
type progress struct {
	Rows int    `json:"rows"` // returned so far
	Left []span `json:"left"` // in the order of their hashes
}

// span is the items that a query has not read yet: those with a hash in from..to and a
// greater number.
type span struct {
	From   string `json:"from"`
	To     string `json:"to"` // excluded
	Number uint64 `json:"number"`
}

// next returns the first of partitions with unread items, and their span; nil if there is none.
func (at *progress) next(partitions []*partition) (*partition, int) {
	for _, p := range partitions {
		for i, s := range at.Left {
			if s.From < p.to && p.from < s.To {
				return p, i
			}
		}
	}
	return nil, 0
}

// pass removes p's items from a span, except those after rest if there are any.
func (at *progress) pass(i int, p *partition, rest uint64, more bool) {
	s := at.Left[i]
	var left []span
	if s.From < p.from {
		left = append(left, span{s.From, p.from, s.Number})
	}
	if more {
		left = append(left, span{max(s.From, p.from), min(s.To, p.to), rest})
	}
	if p.to < s.To {
		left = append(left, span{p.to, s.To, s.Number})
	}
	at.Left = slices.Replace(at.Left, i, i+1, left...)
}

func (at *progress) token() string {
	b, _ := json.Marshal(at)
	return base64.StdEncoding.EncodeToString(b)
}

func resume(token string) (progress, bool) {
	at := progress{Left: []span{{To: bound(hashes)}}}
	if token == "" {
		return at, true
	}
	b, err := base64.StdEncoding.DecodeString(token)
	return at, err == nil && json.Unmarshal(b, &at) == nil
}
