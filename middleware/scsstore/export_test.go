package scsstore

// Requests returns how many requests under way are known.
func (s *Store) Requests() (n int) {
	s.under.mu.Lock()
	defer s.under.mu.Unlock()
	for _, of := range s.under.found {
		n += len(of)
	}
	return n
}
