// Package e2e holds the tests that drive the live page of a running admitd in a
// real browser. They are a module of their own so that the browser's driver
// stays out of the product's dependencies.
package e2e
