package pulsarwire

// ThrottleProducer asks a client to send nothing on one producer for a while.
type ThrottleProducer struct {
	RequestID, ProducerID uint64
	Reason                Reason
	PauseMillis           uint64 // 0: the connection is paused anyway; nothing to wait for
}

// fields is the table of a THROTTLE_PRODUCER. The numbers are those of the
// proposal, which leaves 3 out.
func (t *ThrottleProducer) fields() [4]field {
	return [...]field{
		number(1, &t.RequestID), number(2, &t.ProducerID), written(code(4, (*int32)(&t.Reason))), number(5, &t.PauseMillis),
	}
}

// DecodeThrottleProducer reads the body of a [TypeThrottleProducer]. What is missing
// is zero; an error wraps [ErrMalformed].
func DecodeThrottleProducer(body []byte) (ThrottleProducer, error) {
	var t ThrottleProducer
	table := t.fields()
	err := read(body, "THROTTLE_PRODUCER", table[:])
	return t, err
}

// Append appends the body of t.
func (t ThrottleProducer) Append(dst []byte) []byte {
	table := t.fields()
	return write(dst, table[:])
}
