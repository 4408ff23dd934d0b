package decide

// Forwarded is forwarded, for tests.
var Forwarded = forwarded
