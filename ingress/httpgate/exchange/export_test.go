package exchange

// Blame opens [Route.blame] to the tests.
var Blame = (*Route).blame
