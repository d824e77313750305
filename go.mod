module github.com/headrace/headrace

go 1.26.0

toolchain go1.27.3

require (
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
	pgregory.net/rapid v1.3.0
)

require github.com/goccy/go-yaml v1.19.2
