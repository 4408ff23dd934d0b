package mongogate

import (
	"slices"
	"strings"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/mongowire"
	"github.com/admitd/admitd/limiter"
)

// maxShapeFields bounds how many fields of a filter make a shape.
const maxShapeFields = 32

// shape returns what the command has in common with others: namespace, command,
// the stages of its pipeline, and the names of the fields that it filters and
// sorts by, in any order; never their values. nil = the gate learns nothing.
func (s *Server) shape(f *facts) *limiter.Shape {
	gate := s.learner
	if gate == nil || !gate.Learns() {
		return nil
	}
	whole := ingress.Fold(ingress.Fold(ingress.Fold(ingress.NewFingerprint(), f.db), f.coll), f.name)
	sum := ingress.Fingerprint(0)
	f.eachField(func(field []byte) { sum += ingress.Fold(ingress.NewFingerprint(), field) }) // in any order
	return gate.Shape(uint64(whole^sum*0x9e3779b97f4a7c15), func() string {
		var fields []string
		f.eachField(func(field []byte) { fields = append(fields, string(field)) })
		slices.Sort(fields)
		return string(f.name) + " " + string(f.db) + "." + string(f.coll) + " {" + strings.Join(fields, ", ") + "}"
	})
}

// eachField tells the names of the fields by which the command chooses.
func (f *facts) eachField(see func(field []byte)) {
	left := maxShapeFields
	each := func(s mongowire.Scanner) {
		for e := (mongowire.Element{}); left > 0 && s.Next(&e); left-- {
			see(e.Key)
		}
	}
	body := mongowire.Scan(f.body)
	for e := (mongowire.Element{}); body.Next(&e); {
		switch string(e.Key) {
		case "filter", "query", "q", "sort":
			each(e.Document())
		case "pipeline", "updates", "deletes":
			list := e.Document()
			for item := (mongowire.Element{}); left > 0 && list.Next(&item); {
				stage := item.Document()
				for part := (mongowire.Element{}); left > 0 && stage.Next(&part); {
					switch string(part.Key) {
					case "u", "limit", "multi", "upsert", "hint", "collation": // of an update or delete
					case "q", "$match":
						each(part.Document())
					default:
						see(part.Key)
						left--
					}
				}
			}
		}
	}
}
