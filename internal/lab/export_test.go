package lab

// StaleCeilings lists the shipped variants that every run plays and whose ceiling
// is not known.
func StaleCeilings() ([]string, error) {
	list, err := Shipped()
	var stale []string
	for _, s := range list {
		for i := range s.Variants {
			run := s.Apply(&s.Variants[i])
			if run.Ceilings() == nil && run.HasCeiling() && !run.Full {
				stale = append(stale, s.Name+", "+s.Variants[i].Name)
			}
		}
	}
	return stale, err
}
