package knee

// Spoil puts what is not a number into the state.
func (k *Limit) Spoil(v float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.flow.rate = v
}
