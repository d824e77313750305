// Command benchmark measures the engine and writes bench/RESULTS.md.
//
// It is what `make bench` runs. Nothing here is a test: a bar that is missed is reported, not failed, and each figure
// stands beside a calibration of the disk it was measured on. Each measurement is a function in a file of its
// own; start reading at main.go.
package main
