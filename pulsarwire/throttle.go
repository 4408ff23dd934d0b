package pulsarwire

// ThrottleProducer asks a client to send nothing on one producer for a while.
type ThrottleProducer struct {
	RequestID, ProducerID uint64
	Reason                Reason
	PauseMillis           uint64 // 0: the connection is paused anyway; nothing to wait for
}

// DecodeThrottleProducer reads the body of a [TypeThrottleProducer].
func DecodeThrottleProducer(body []byte) (ThrottleProducer, error) {
	var t ThrottleProducer
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			t.RequestID = f.value
		case f.varint(2):
			t.ProducerID = f.value
		case f.varint(4):
			t.Reason = Reason(int32(f.value))
		case f.varint(5):
			t.PauseMillis = f.value
		}
	}
	return t, f.err("THROTTLE_PRODUCER")
}

// Append appends the body of t. The numbers are those of the proposal, which
// leaves 3 out.
func (t ThrottleProducer) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, t.RequestID)
	dst = appendUint(dst, 2, t.ProducerID)
	dst = appendUint(dst, 4, uint64(t.Reason))
	return appendUint(dst, 5, t.PauseMillis)
}
