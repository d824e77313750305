package sim

// covered is what must happen in a run of many seeds: each operation with each kind of reply, each fault, each end of
// a job, an attempt and a build, and each reason that why can give for what the model knows.
var covered = []string{
	"submit ", "submit invalid", "submit conflict", "submit cycle", "submit not-found",
	"submit-large ", "submit-large invalid", "submit-large conflict", "submit-large not-found", "look staged",
	"submitted created", "submitted joined", "submitted reused", "submitted cached-failure",
	"register ", "register invalid", "register worker-live", "sign-off ",
	"lease ", "lease not-found", "lease worker-live", "lease signed-off", "lease retry", "lease gone",
	"heartbeat ", "heartbeat lease-lost", "progress ", "progress lease-lost",
	"finish ", "finish lease-lost", "repeat ", "repeat lease-lost", "confirm lease-lost",
	"cancel ", "cancel not-found", "cancel ended", "cancel needed", "cancel-build ", "cancel-build not-found",
	"bump ", "bump invalid", "bump not-found", "fail ", "fail not-found", "fail ended", "fail busy",
	"delete ", "delete waits", "delete busy", "delete not-found",
	"delete-build ", "delete-build busy", "delete-build not-found", "clear ",
	"drain ", "drain not-found", "pardon ", "pardon not-found", "remove ", "remove busy", "remove not-found",
	"channel ", "pause ", "sleep ", "restart ", "why ", "why not-found",
	"fault fails-once", "fault ambiguous", "fault blind-ambiguous", "fault down", "fault dies-before", "fault dies-after",
	"fault lookup-fails",
	"outcome succeeded ", "outcome failed ", "outcome failed log-limit", "outcome failed output-limit",
	"outcome failed non-deterministic", "outcome timed-out total-timeout", "outcome timed-out silent-timeout",
	"outcome cancelled ", "outcome aborted ", "outcome aborted worker-fault", "outcome aborted worker-crashed",
	"outcome aborted handed-back", "outcome aborted not-started",
	"end succeeded ", "end failed ", "end failed log-limit", "end dependency-failed ", "end timed-out total-timeout",
	"end timed-out silent-timeout", "end aborted ", "end aborted lease-lost", "end aborted worker-crashed",
	"end aborted worker-fault", "end cancelled ", "end cancelled not-needed", "end unsupported ",
	"build succeeded", "build failed", "build dependency-failed", "build timed-out", "build aborted", "build cancelled",
	"build unsupported",
	"why dependency", "why not-before", "why back-off", "why stopping", "why build-waits", "why paused",
	"why concurrency-key", "why unsupported",
}
