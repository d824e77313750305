//go:build !race

package sim

const usual = enough
