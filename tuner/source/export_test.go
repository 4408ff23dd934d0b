package source

// Value is what Read makes of an answer.
func (s *Scrape) Value(text string) (float64, error) { return s.value(text) }

// ParseAnswer is what Query makes of an answer.
var ParseAnswer = parseAnswer
