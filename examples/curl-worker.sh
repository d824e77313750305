#!/usr/bin/env bash
# A worker in bash, curl (7.82 or newer), jq and setsid: it registers, takes one job at a time, sends its log, and tells how it ended.
# usage: HEADRACE_SERVER=http://HOST:PORT HEADRACE_TOKEN=... curl-worker.sh NAME SYSTEM [JOBS]
# Each sync states the whole truth, so that whatever is lost on the way is healed by the next. Killed, it leaves its lease to run out.
set -euo pipefail
me=/workers/$(jq -rn --arg name "$1" '$name | @uri') system=$2 left=${3:--1} work=$(mktemp -d) session=$(cat /proc/sys/kernel/random/uuid)
echo "Authorization: Bearer ${HEADRACE_TOKEN:-none}" >"$work/header"
call() { curl -sS --fail-with-body --max-time 90 -X POST "$HEADRACE_SERVER/api/v1$1" -H @"$work/header" "${@:2}"; } # PATH ARG...
sync() { # RUNNING FINISHED WANT WAIT; the answer is in $work/reply
	jq -n --arg session "$session" --arg system "$system" \
		--argjson running "$1" --argjson finished "$2" --argjson want "$3" --argjson wait "$4" '{
			version: 1, $session, $running, $finished, $want, wait_seconds: $wait,
			worker: {channels: ["default"], kinds: ["command"], systems: [$system], slots: 1, version: "curl"}}' |
		call "$me/sync" --json @- >"$work/reply" || { cat "$work/reply" >&2; return 1; }
}
trap 'call "$me/sign-off" --json "{\"session\": \"$session\"}" || true; rm -r "$work"' EXIT
finished='[]'
while [ "$left" -ne 0 ]; do
	until sync '[]' "$finished" 1 50 && finished='[]' && start=$(jq -ce '.start[0] // empty' "$work/reply"); do sleep 1; done
	lease=$(jq -c '{job, attempt, token}' <<<"$start") path=$(jq -r '"/jobs/\(.job)/attempts/\(.attempt)/log"' <<<"$start") sent=0 stop=
	: >"$work/log"
	echo "Headrace-Lease: $(jq -r .token <<<"$start")" >"$work/lease"
	mapfile -d '' vars < <(jq -j '"HEADRACE_JOB=\(.name)", "HEADRACE_JOB_ID=\(.job)", "HEADRACE_ATTEMPT=\(.attempt)", (.args.env // [])[] | . + "\u0000"' <<<"$start")
	mapfile -d '' run < <(jq -j 'if .args.shell then "sh", "-c", .args.shell else .args.argv[] end | . + "\u0000"' <<<"$start")
	dir=$(jq -r '.args.dir // "."' <<<"$start")
	(cd "$dir" && exec env "${vars[@]}" setsid "${run[@]}") >"$work/log" 2>&1 </dev/null &
	pid=$!
	while :; do # a turn each second: its log, its lease, and whether it is to stop
		alive=$(kill -0 $pid 2>/dev/null && echo yes || true)
		tail -c +$((sent + 1)) "$work/log" | head -c 4000000 >"$work/chunk" || true
		if call "$path?offset=$sent" -H @"$work/lease" -H 'Content-Type: application/octet-stream' --data-binary @"$work/chunk" >"$work/size"; then
			sent=$(jq .size "$work/size")
			[ "$alive" ] || [ "$sent" -lt "$(wc -c <"$work/log")" ] || break
		fi
		sync "[$lease]" '[]' 0 1 && stop=$stop$(jq -r '.stop[]?.job' "$work/reply") || sleep 1
		[ -z "$stop" ] || kill -TERM -- -$pid 2>/dev/null || break
	done
	wait $pid && outcome=succeeded || outcome=failed
	[ -z "$stop" ] || outcome=cancelled
	kill -KILL -- -$pid 2>/dev/null || true # what it left
	finished=$(jq -c --arg outcome "$outcome" '[. + {$outcome}]' <<<"$lease") left=$((left - 1))
done
until sync '[]' "$finished" 0 0; do sleep 1; done
