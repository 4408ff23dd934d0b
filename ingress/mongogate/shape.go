package mongogate

import (
	"slices"
	"strings"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// maxShapeFields bounds how many fields of a filter make a shape.
const maxShapeFields = 32

// shape returns what the command has in common with others: namespace, command,
// the stages of its pipeline, and the names of the fields that it filters and
// sorts by, in any order; never their values. nil = the gate learns nothing.
func (ses *session) shape() *limiter.Shape {
	gate := ses.s.learner
	if gate == nil || !gate.Learns() {
		return nil
	}
	f := &ses.f
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
	each := func(s scanner) {
		for e := (element{}); left > 0 && s.next(&e); left-- {
			see(e.key)
		}
	}
	body := scan(f.body)
	for e := (element{}); body.next(&e); {
		switch string(e.key) {
		case "filter", "query", "q", "sort":
			each(e.doc())
		case "pipeline", "updates", "deletes":
			list := e.doc()
			for item := (element{}); left > 0 && list.next(&item); {
				stage := item.doc()
				for part := (element{}); left > 0 && stage.next(&part); {
					switch string(part.key) {
					case "u", "limit", "multi", "upsert", "hint", "collation": // of an update or delete
					case "q", "$match":
						each(part.doc())
					default:
						see(part.key)
						left--
					}
				}
			}
		}
	}
}
