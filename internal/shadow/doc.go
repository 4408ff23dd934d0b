// Package shadow tries other limits on the requests of a running gate, and
// refuses nobody. A [Stage] stands beside one gate as its [limiter.Witness]; on
// it up to four candidates play, each a gate of its own in the stage's time. What
// a candidate would have refused among what was offered is counted; what it
// would have admitted holds a permit of the candidate for as long as the backend
// would have taken, which a [curve] guesses from what the enforced gate was seen
// to take.
//
// What that can and cannot know: which requests come is real, and nobody retries
// because of a candidate. How long the backend takes with as many in flight as
// the enforced gate had at times is measured. Beyond that it is assumed to give no
// more throughput; how much of a prediction rests on that is told
// ([status.Candidate]).
package shadow
