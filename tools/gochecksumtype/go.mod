module github.com/headrace/headrace/tools/gochecksumtype

go 1.27.0

toolchain go1.27.3

tool github.com/alecthomas/go-check-sumtype/cmd/go-check-sumtype

require (
	github.com/alecthomas/go-check-sumtype v0.5.0 // indirect
	golang.org/x/mod v0.39.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
)
