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

// DecodeSend reads the body of a [TypeSend].
func DecodeSend(body []byte) (Send, error) {
	s := Send{NumMessages: 1}
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			s.ProducerID = f.value
		case f.varint(2):
			s.SequenceID = f.value
		case f.varint(3):
			s.NumMessages = min(max(int(int32(f.value)), 1), maxBatch)
		case f.varint(6):
			s.HighestSequenceID = f.value
		}
	}
	return s, f.err("SEND")
}

// Append appends the body of s.
func (s Send) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, s.ProducerID)
	dst = appendUint(dst, 2, s.SequenceID)
	if s.NumMessages > 1 {
		dst = appendUint(dst, 3, uint64(s.NumMessages))
	}
	if s.HighestSequenceID != 0 {
		dst = appendUint(dst, 6, s.HighestSequenceID)
	}
	return dst
}

// SendReceipt is the answer to a SEND.
type SendReceipt struct {
	ProducerID, SequenceID uint64
	HighestSequenceID      uint64
	LedgerID, EntryID      uint64 // written only
}

// DecodeSendReceipt reads the body of a [TypeSendReceipt], without its message id.
func DecodeSendReceipt(body []byte) (SendReceipt, error) {
	var r SendReceipt
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			r.ProducerID = f.value
		case f.varint(2):
			r.SequenceID = f.value
		case f.varint(4):
			r.HighestSequenceID = f.value
		}
	}
	return r, f.err("SEND_RECEIPT")
}

// Append appends the body of r.
func (r SendReceipt) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, r.ProducerID)
	dst = appendUint(dst, 2, r.SequenceID)
	dst = protowire.AppendTag(dst, 3, protowire.BytesType)
	size := 2 + protowire.SizeVarint(r.LedgerID) + protowire.SizeVarint(r.EntryID)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendUint(dst, 1, r.LedgerID)
	dst = appendUint(dst, 2, r.EntryID)
	if r.HighestSequenceID != 0 {
		dst = appendUint(dst, 4, r.HighestSequenceID)
	}
	return dst
}

// SendError is a broker's refusal of one message.
type SendError struct {
	ProducerID, SequenceID uint64
	Code                   ServerError
	Message                string
}

// DecodeSendError reads the body of a [TypeSendError].
func DecodeSendError(body []byte) (SendError, error) {
	var e SendError
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			e.ProducerID = f.value
		case f.varint(2):
			e.SequenceID = f.value
		case f.varint(3):
			e.Code = ServerError(int32(f.value))
		case f.num == 4:
			e.Message = string(f.bytes)
		}
	}
	return e, f.err("SEND_ERROR")
}

// Append appends the body of e.
func (e SendError) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, e.ProducerID)
	dst = appendUint(dst, 2, e.SequenceID)
	dst = appendUint(dst, 3, uint64(e.Code))
	return appendString(dst, 4, e.Message)
}

// Producer asks for a producer on a topic.
type Producer struct {
	Topic                 string
	ProducerID, RequestID uint64
	Name                  string // "" = the broker chooses one
}

// DecodeProducer reads the body of a [TypeProducer].
func DecodeProducer(body []byte) (Producer, error) {
	var p Producer
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == 1 && f.kind == protowire.BytesType:
			p.Topic = string(f.bytes)
		case f.varint(2):
			p.ProducerID = f.value
		case f.varint(3):
			p.RequestID = f.value
		case f.num == 4 && f.kind == protowire.BytesType:
			p.Name = string(f.bytes)
		}
	}
	return p, f.err("PRODUCER")
}

// Append appends the body of p.
func (p Producer) Append(dst []byte) []byte {
	dst = appendString(dst, 1, p.Topic)
	dst = appendUint(dst, 2, p.ProducerID)
	dst = appendUint(dst, 3, p.RequestID)
	return appendString(dst, 4, p.Name)
}

// ProducerSuccess says that a producer exists.
type ProducerSuccess struct {
	RequestID uint64
	Name      string
}

// DecodeProducerSuccess reads the body of a [TypeProducerSuccess].
func DecodeProducerSuccess(body []byte) (ProducerSuccess, error) {
	var p ProducerSuccess
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			p.RequestID = f.value
		case f.num == 2 && f.kind == protowire.BytesType:
			p.Name = string(f.bytes)
		}
	}
	return p, f.err("PRODUCER_SUCCESS")
}

// Append appends the body of p.
func (p ProducerSuccess) Append(dst []byte) []byte {
	return appendString(appendUint(dst, 1, p.RequestID), 2, p.Name)
}

// CloseProducer ends a producer. Either side may send it; a broker may name the
// broker that serves the topic from now on.
type CloseProducer struct {
	ProducerID, RequestID    uint64
	AssignedURL, AssignedTLS string
}

// DecodeCloseProducer reads the body of a [TypeCloseProducer], or of a
// [TypeCloseConsumer], which has the same form.
func DecodeCloseProducer(body []byte) (CloseProducer, error) {
	var c CloseProducer
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			c.ProducerID = f.value
		case f.varint(2):
			c.RequestID = f.value
		case f.num == 3 && f.kind == protowire.BytesType:
			c.AssignedURL = string(f.bytes)
		case f.num == 4 && f.kind == protowire.BytesType:
			c.AssignedTLS = string(f.bytes)
		}
	}
	return c, f.err("CLOSE_PRODUCER")
}

// Append appends the body of c.
func (c CloseProducer) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, c.ProducerID)
	dst = appendUint(dst, 2, c.RequestID)
	return appendString(appendString(dst, 3, c.AssignedURL), 4, c.AssignedTLS)
}

// Error is the refusal of a request.
type Error struct {
	RequestID uint64
	Code      ServerError
	Message   string
}

// DecodeError reads the body of a [TypeError].
func DecodeError(body []byte) (Error, error) {
	var e Error
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			e.RequestID = f.value
		case f.varint(2):
			e.Code = ServerError(int32(f.value))
		case f.num == 3 && f.kind == protowire.BytesType:
			e.Message = string(f.bytes)
		}
	}
	return e, f.err("ERROR")
}

// Append appends the body of e.
func (e Error) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, e.RequestID)
	dst = appendUint(dst, 2, uint64(e.Code))
	return appendString(dst, 3, e.Message)
}

// DecodeRequestID reads the request id of a body that carries it in field num,
// such as [TypeSuccess] (1).
func DecodeRequestID(body []byte, num int32) (uint64, error) {
	id, f := uint64(0), fields{rest: body}
	for f.next() {
		if f.varint(protowire.Number(num)) {
			id = f.value
		}
	}
	return id, f.err("request id")
}

// AppendRequestID appends a body that is nothing but a request id in field 1.
func AppendRequestID(dst []byte, id uint64) []byte { return appendUint(dst, 1, id) }
