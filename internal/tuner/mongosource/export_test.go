package mongosource

import "go.mongodb.org/mongo-driver/v2/bson"

// Value is what Read makes of an answer.
func (s *Source) Value(raw bson.Raw) (float64, error) { return s.value(raw) }
