module github.com/headrace/headrace

go 1.26.0

toolchain go1.27.3

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
