// Command benchmark measures the engine and writes bench/RESULTS.md.
//
// It is what `make bench` runs. Nothing here is a test: a bar that is missed is reported, not failed, and each table stands
// beside a calibration of the disk and the processor, taken just before and just after it. -only names what is measured,
// -quick measures next to nothing to see that it works, and -cpuprofile and -statements tell where the time goes.
//
// Stores are real: files with synchronous=FULL, and a PostgreSQL server of its own (internal/pgtest) with fsync on. River
// runs as a program of its own, built from bench/river. Each measurement is a function in a file that it shares with its
// like; start reading at main.go, then lab.go.
package main
