// Package parts is what limits are made of besides their arithmetic: checks of
// their options, sums of samples that take no lock, and the record of when and why
// they changed.
package parts
