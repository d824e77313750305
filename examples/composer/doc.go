// Composer shows osbuild-composer's job queue on Headrace at work:
//
//	go run ./examples/composer
//
// Two composes are asked for, each a graph of jobs: packages are looked up, a manifest is made of them, four images are built of that,
// and what came of them is uploaded. Much goes wrong: a worker dies, an image cannot be built, a compose is cancelled while it is being
// worked on, and the server is stopped and started again while a worker builds. The program tells what comes of it, and ends with 0.
//
// It does not build anything. Server and workers are one process here; in composer an HTTP server stands between them, which calls the
// queue as worker.go does.
//
// story.go has what happens. server.go is the side of composer's server: composes, and the watchdog. worker.go is the loop of a
// worker. main.go opens the store and runs the engine.
package main
