//go:build race

package sim

// Ten times as slow, for the sake of data races: a fifth of the seeds has enough of those that there may be. make test runs all seeds
// without the race detector besides.
const usual = enough / 5
