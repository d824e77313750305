// The Go vulnerability database that `make check` reads, pinned like any other dependency. Nothing
// here is built: scripts/check hands the folder data/osv of this module to govulncheck.
module github.com/headrace/headrace/tools/vulndb

go 1.26.0

toolchain go1.27.3

require golang.org/x/vulndb v0.0.0-20261105234957-e22db6528018 // indirect
