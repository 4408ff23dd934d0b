package mongogate

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/mongowire"
)

// failPoint is what configureFailPoint asked for. It does not change.
type failPoint struct {
	commands map[string]bool
	app      string
	code     int32
	labels   []string
	drop     bool          // close the connection
	block    time.Duration // before anything else
	writeErr []byte        // writeConcernError document
	skip     int64
	times    int64 // or always
}

// failPoints holds the failCommand fail point, as a server under test does.
type failPoints struct {
	on    atomic.Bool
	mu    sync.Mutex // guards the fields below; never held across a wait
	point failPoint
}

// configure carries out configureFailPoint and returns the reply. Any other
// test command just succeeds.
func (p *failPoints) configure(command, body []byte) []byte {
	if string(command) == "configureFailPoint" {
		first, _ := mongowire.Lookup(body, "configureFailPoint")
		if string(first.Text()) != "failCommand" {
			return appendError(nil, codeFailPointInvalid, "FailedToParse", "admitd: only failCommand is known")
		}
		p.set(readFailPoint(body))
	}
	at, doc := bsoncore.AppendDocumentStart(nil)
	return endDocument(bsoncore.AppendDoubleElement(doc, "ok", 1), at)
}

// set replaces the fail point.
func (p *failPoints) set(fp failPoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.point = fp
	p.on.Store(fp.times != 0)
}

// readFailPoint reads the command's document.
func readFailPoint(body []byte) failPoint {
	fp := failPoint{commands: map[string]bool{}}
	var e mongowire.Element
	s := mongowire.Scan(body)
	for s.Next(&e) {
		switch string(e.Key) {
		case "mode":
			fp.mode(e)
		case "data":
			fp.data(e.Document())
		}
	}
	return fp
}

// always is how often a fail point fails that nobody counts.
const always = -1

// mode reads alwaysOn, off, {times: n} or {skip: n}.
func (fp *failPoint) mode(e mongowire.Element) {
	if string(e.Text()) == "alwaysOn" {
		fp.times = always
	}
	if times, ok := mongowire.LookupIn(e, "times"); ok {
		fp.times, _ = times.Number()
	}
	if skip, ok := mongowire.LookupIn(e, "skip"); ok {
		fp.skip, _ = skip.Number()
		fp.times = always
	}
}

// data reads what is to fail, and how.
func (fp *failPoint) data(s mongowire.Scanner) {
	var e, c mongowire.Element
	for s.Next(&e) {
		switch string(e.Key) {
		case "failCommands":
			for names := e.Document(); names.Next(&c); {
				fp.commands[string(c.Text())] = true
			}
		case "errorLabels":
			for names := e.Document(); names.Next(&c); {
				fp.labels = append(fp.labels, string(c.Text()))
			}
		case "errorCode":
			n, _ := e.Number()
			fp.code = int32(n)
		case "appName":
			fp.app = string(e.Text())
		case "closeConnection":
			fp.drop = e.Truthy()
		case "blockTimeMS":
			n, _ := e.Number()
			fp.block = time.Duration(n) * time.Millisecond
		case "writeConcernError":
			fp.writeErr = append([]byte(nil), e.Value...)
		}
	}
}

// take returns the fail point when it applies to the command, and uses it up.
func (p *failPoints) take(command []byte, app string) (failPoint, bool) {
	if !p.on.Load() {
		return failPoint{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fp := &p.point
	if fp.times == 0 || !fp.commands[string(command)] || (fp.app != "" && fp.app != app) {
		return failPoint{}, false
	}
	if fp.skip > 0 {
		fp.skip--
		return failPoint{}, false
	}
	if fp.times > 0 {
		fp.times--
		p.on.Store(fp.times != 0)
	}
	return *fp, true
}

// failed answers the test commands, and lets a fail point have its way with any
// other. done tells that it decided; an error closes the connection.
func (ses *session) failed(h mongowire.Header, k command) (v relay.Verdict, done bool, err error) {
	if k.class == classFailPoint {
		return ses.answer(h, ses.s.points.configure(ses.f.name, ses.f.body)), true, nil
	}
	fp, ok := ses.s.points.take(ses.f.name, ses.who.application)
	if !ok {
		return v, false, nil
	}
	if fp.block > 0 {
		<-time.After(fp.block)
	}
	switch {
	case fp.drop:
		return v, true, errFailPoint
	case ses.f.noReply && fp.code != 0:
		return relay.Verdict{Action: relay.Swallow}, true, nil
	case fp.code != 0:
		return ses.answer(h, fp.document()), true, nil
	case fp.writeErr != nil:
		ses.asked.inject = fp.written()
		return relay.Verdict{Expect: true}, true, nil
	}
	return v, false, nil
}

// errFailPoint closes a connection as a fail point wants it.
var errFailPoint = errors.New("mongogate: closed by a fail point")

// document returns the error that the fail point answers with.
func (fp *failPoint) document() []byte {
	at, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendDoubleElement(doc, "ok", 0)
	doc = bsoncore.AppendStringElement(doc, "errmsg", "Failing command via 'failCommand' failpoint")
	doc = bsoncore.AppendInt32Element(doc, "code", fp.code)
	if len(fp.labels) > 0 {
		doc = appendLabels(doc, fp.labels, false)
	}
	return endDocument(doc, at)
}

// written returns the reply to a write that was carried out and then failed
// its write concern.
func (fp *failPoint) written() []byte {
	at, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendDoubleElement(doc, "ok", 1)
	doc = bsoncore.AppendInt32Element(doc, "n", 1)
	doc = bsoncore.AppendDocumentElement(doc, "writeConcernError", fp.writeErr)
	if len(fp.labels) > 0 {
		doc = appendLabels(doc, fp.labels, false)
	}
	return endDocument(doc, at)
}
