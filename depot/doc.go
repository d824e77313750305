// Package depot keeps what attempts leave behind: logs, which are what they wrote, and artifacts, which are files that they
// upload.
//
// It knows no job beyond its id, and asks nobody for leave: who may write and read is judged by its caller, who also decides
// what is removed when. Three interfaces (depot.go) say what a depot does: Logs, Artifacts and Keeper. Folder is the one in
// a folder of this machine; one process at a time can have it, and within that any number of goroutines may call anything
// at once, for one attempt too.
//
// A log grows by chunks with an offset, so that a worker may send again what was not answered. While it grows, it is a plain file:
// killed at any moment, it is what is truly there. It is not synced, as it is a witness and not state: the end of the machine may
// cost its last seconds. Seal, at the end of the attempt, turns it into independent zstd frames with a table (seekable.go), synced,
// so that it takes little room and any part of it can be read at once; what would not become smaller stays plain. When it came
// in is kept beside it, by the server's clock, in at most 64 KiB. Wait follows a log without polling; each follower costs a
// channel and no goroutine of ours. Tail finds the last lines of any log.
//
// An artifact comes in one or several calls, is checked against the size and the SHA-256 that were declared, and is visible when
// it is whole, right and synced, and not before. Names from outside never reach the file system: contents lie under the sum of their
// names, and an index has the names. All access is by os.Root besides, so that no link leads out either.
//
// A full or read-only disk gives errors that wrap the cause and name the operation, the attempt and the folder; what was
// acknowledged stays.
//
// Start reading at depot.go (what is promised), then paths.go (what lies where), log.go (how a log grows), seal.go, put.go.
package depot
