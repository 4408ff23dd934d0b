package labcmd

// Candidate is candidate, for tests.
var Candidate = candidate
