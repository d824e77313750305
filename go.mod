module github.com/headrace/headrace

go 1.26.0

toolchain go1.27.3

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/google/go-cmp v0.7.0
)

require pgregory.net/rapid v1.3.0
