// Package peers puts other people's limiters, unmodified, through the lab's
// scenarios, beside ours. It is a module of its own, so that they stay out of
// the product's dependencies.
//
// They read the time package, so a run takes place in a testing/synctest bubble
// in which sleeping is what moves time. That is why [Contenders] is played by a
// test; -out writes the results for 'admitd lab report --peers'. ADR 10 tells why.
package peers
