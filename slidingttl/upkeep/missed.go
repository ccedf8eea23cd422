package upkeep

// Missed counts the records that were to be written and were not.
type Missed struct {
	Vanished int64 `json:"vanished"`   // gone before they could be written
	Locked   int64 `json:"locked"`     // by another client; left as they are
	Races    int64 `json:"lost_races"` // written by others time and again; left as they are
}

func (m *Missed) sum(page *Missed) {
	m.Vanished += page.Vanished
	m.Locked += page.Locked
	m.Races += page.Races
}

// note counts a record, unless o is none of these.
func (m *Missed) note(o outcome) {
	switch o {
	case vanished:
		m.Vanished++
	case locked:
		m.Locked++
	case races:
		m.Races++
	}
}

func (s *sheet) missed(m *Missed) {
	s.some("left: locked by another client", m.Locked)
	s.some("left: written by others time and again", m.Races)
	s.some("gone before they were written", m.Vanished)
}
