package pulsarwire

import "google.golang.org/protobuf/encoding/protowire"

// Send is the command before a message.
type Send struct {
	ProducerID, SequenceID uint64
	HighestSequenceID      uint64 // of a batch; 0 = not one
	NumMessages            int    // at least 1
}

// maxBatch bounds what a peer may claim as the size of one batch.
const maxBatch = 1 << 20

// fields is the table of a SEND. messages is what stands in it for NumMessages.
func (s *Send) fields(messages *int) [4]field {
	return [...]field{
		number(1, &s.ProducerID), number(2, &s.SequenceID), count(3, messages), option(6, &s.HighestSequenceID),
	}
}

// DecodeSend reads the body of a [TypeSend].
func DecodeSend(body []byte) (Send, error) {
	var s Send
	table := s.fields(&s.NumMessages)
	err := read(body, "SEND", table[:])
	s.NumMessages = min(max(s.NumMessages, 1), maxBatch)
	return s, err
}

// Append appends the body of s.
func (s Send) Append(dst []byte) []byte {
	messages := 0 // one need not be said
	if s.NumMessages > 1 {
		messages = s.NumMessages
	}
	table := s.fields(&messages)
	return write(dst, table[:])
}

// SendReceipt is the answer to a SEND.
type SendReceipt struct {
	ProducerID, SequenceID uint64
	HighestSequenceID      uint64
	LedgerID, EntryID      uint64 // written only
}

// fields is the table of a SEND_RECEIPT, without its message id.
func (r *SendReceipt) fields() [3]field {
	return [...]field{number(1, &r.ProducerID), number(2, &r.SequenceID), option(4, &r.HighestSequenceID)}
}

// DecodeSendReceipt reads the body of a [TypeSendReceipt], without its message id.
func DecodeSendReceipt(body []byte) (SendReceipt, error) {
	var r SendReceipt
	table := r.fields()
	err := read(body, "SEND_RECEIPT", table[:])
	return r, err
}

// Append appends the body of r.
func (r SendReceipt) Append(dst []byte) []byte {
	table := r.fields()
	dst = write(dst, table[:2])
	dst = protowire.AppendTag(dst, 3, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(2+protowire.SizeVarint(r.LedgerID)+protowire.SizeVarint(r.EntryID)))
	dst = appendUint(appendUint(dst, 1, r.LedgerID), 2, r.EntryID)
	return write(dst, table[2:])
}

// SendError is a broker's refusal of one message.
type SendError struct {
	ProducerID, SequenceID uint64
	Code                   ServerError
	Message                string
}

// fields is the table of a SEND_ERROR.
func (e *SendError) fields() [4]field {
	return [...]field{
		number(1, &e.ProducerID), number(2, &e.SequenceID), written(code(3, (*int32)(&e.Code))), text(4, &e.Message),
	}
}

// DecodeSendError reads the body of a [TypeSendError].
func DecodeSendError(body []byte) (SendError, error) {
	var e SendError
	table := e.fields()
	err := read(body, "SEND_ERROR", table[:])
	return e, err
}

// Append appends the body of e.
func (e SendError) Append(dst []byte) []byte {
	table := e.fields()
	return write(dst, table[:])
}

// Producer asks for a producer on a topic.
type Producer struct {
	Topic                 string
	ProducerID, RequestID uint64
	Name                  string // "" = the broker chooses one
}

// fields is the table of a PRODUCER.
func (p *Producer) fields() [4]field {
	return [...]field{text(1, &p.Topic), number(2, &p.ProducerID), number(3, &p.RequestID), text(4, &p.Name)}
}

// DecodeProducer reads the body of a [TypeProducer].
func DecodeProducer(body []byte) (Producer, error) {
	var p Producer
	table := p.fields()
	err := read(body, "PRODUCER", table[:])
	return p, err
}

// ProducerProperty returns what the metadata in the body of a [TypeProducer] says
// under a key, "" when it says nothing.
func ProducerProperty(body []byte, key string) string {
	const metadata = 6
	f := fields{rest: body}
	for f.next() {
		if f.num != metadata || f.kind != protowire.BytesType {
			continue
		}
		var k, v string
		table := [...]field{text(1, &k), text(2, &v)}
		if read(f.bytes, "metadata", table[:]) == nil && k == key {
			return v
		}
	}
	return ""
}

// Append appends the body of p.
func (p Producer) Append(dst []byte) []byte {
	table := p.fields()
	return write(dst, table[:])
}

// ProducerSuccess says that a producer exists.
type ProducerSuccess struct {
	RequestID uint64
	Name      string
}

// fields is the table of a PRODUCER_SUCCESS.
func (p *ProducerSuccess) fields() [2]field {
	return [...]field{number(1, &p.RequestID), text(2, &p.Name)}
}

// DecodeProducerSuccess reads the body of a [TypeProducerSuccess].
func DecodeProducerSuccess(body []byte) (ProducerSuccess, error) {
	var p ProducerSuccess
	table := p.fields()
	err := read(body, "PRODUCER_SUCCESS", table[:])
	return p, err
}

// Append appends the body of p.
func (p ProducerSuccess) Append(dst []byte) []byte {
	table := p.fields()
	return write(dst, table[:])
}

// CloseProducer ends a producer. Either side may send it; a broker may name the
// broker that serves the topic from now on.
type CloseProducer struct {
	ProducerID, RequestID    uint64
	AssignedURL, AssignedTLS string
}

// fields is the table of a CLOSE_PRODUCER.
func (c *CloseProducer) fields() [4]field {
	return [...]field{
		number(1, &c.ProducerID), number(2, &c.RequestID), text(3, &c.AssignedURL), text(4, &c.AssignedTLS),
	}
}

// DecodeCloseProducer reads the body of a [TypeCloseProducer], or of a
// [TypeCloseConsumer], which has the same form.
func DecodeCloseProducer(body []byte) (CloseProducer, error) {
	var c CloseProducer
	table := c.fields()
	err := read(body, "CLOSE_PRODUCER", table[:])
	return c, err
}

// Append appends the body of c.
func (c CloseProducer) Append(dst []byte) []byte {
	table := c.fields()
	return write(dst, table[:])
}

// Error is the refusal of a request.
type Error struct {
	RequestID uint64
	Code      ServerError
	Message   string
}

// fields is the table of an ERROR.
func (e *Error) fields() [3]field {
	return [...]field{number(1, &e.RequestID), written(code(2, (*int32)(&e.Code))), text(3, &e.Message)}
}

// DecodeError reads the body of a [TypeError].
func DecodeError(body []byte) (Error, error) {
	var e Error
	table := e.fields()
	err := read(body, "ERROR", table[:])
	return e, err
}

// Append appends the body of e.
func (e Error) Append(dst []byte) []byte {
	table := e.fields()
	return write(dst, table[:])
}

// DecodeRequestID reads the request id of a body that carries it in field num,
// such as [TypeSuccess] (1).
func DecodeRequestID(body []byte, num int32) (id uint64, err error) {
	table := [...]field{number(protowire.Number(num), &id)}
	err = read(body, "request id", table[:])
	return id, err
}

// AppendRequestID appends a body that is nothing but a request id in field 1.
func AppendRequestID(dst []byte, id uint64) []byte { return appendUint(dst, 1, id) }
