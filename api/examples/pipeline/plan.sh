#!/bin/sh
# plan.sh MODEL OUTPUT: plans a model on a Shardplan service and writes the annotated model, if the plan is good enough.
#
# For pipelines; needs curl and jq. The plan as JSON goes beside OUTPUT, as OUTPUT.plan.json. What it goes by:
#
#   SHARDPLAN_SERVER          the service, like https://planner.example
#   SHARDPLAN_TOKEN_FILE      holds a token with the scopes read and plan; or SHARDPLAN_TOKEN, the token itself
#   SHARDPLAN_CA_FILE         the authority of the service's certificate, where it is your own
#   DEVICE, DEVICES           type and number of the devices (a100-sxm4-80gb, 4); or
#   CLUSTER                   a file that describes them
#   OBJECTIVE                 throughput, latency, devices or, with a workload, cost
#   WORKLOAD                  a file that describes a service: lengths, concurrency, rate, limits; else one step is planned
#   MAX_LATENCY_SECONDS       the plan's latency must not be above; not looked at when empty
#   MAX_TTFT_SECONDS          nor, with a workload, the mean time to the first token,
#   MAX_TPOT_SECONDS          nor the mean time per output token
#   MAX_MEMORY_SHARE          nor the memory of any device above this part of what it has (1)
#   PLAN_SECONDS              how long to wait for the plan (900)
#   RETRIES                   how often a request is tried again when the service is busy or not there (5)
#   PIPELINE_RUN              names this run: a step that is run again takes the plan that the first try asked for
#
# Exit status: 0 the plan is good; 1 it is not, or the model has errors; 2 wrong usage; 3 nothing fits the devices;
# 4 the service could not be asked.
set -eu

fail() {
    status=$1
    shift
    echo "plan.sh: $*" >&2
    exit "$status"
}

[ $# -eq 2 ] || fail 2 "usage: plan.sh MODEL OUTPUT"
model=$1 output=$2
server=${SHARDPLAN_SERVER:-}
server=${server%/}
[ -n "$server" ] || fail 2 "SHARDPLAN_SERVER is not set"
[ -r "$model" ] || fail 2 "cannot read $model"

mask=$(umask)
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A token on a command line can be read by everybody on the machine; in a file it cannot.
: >"$work/credentials"
if [ -n "${SHARDPLAN_TOKEN_FILE:-}" ]; then
    printf 'Authorization: Bearer %s\n' "$(cat "$SHARDPLAN_TOKEN_FILE")" >"$work/credentials"
elif [ -n "${SHARDPLAN_TOKEN:-}" ]; then
    printf 'Authorization: Bearer %s\n' "$SHARDPLAN_TOKEN" >"$work/credentials"
fi

# request ANSWER CURL-ARGUMENTS...: the answer goes into the file; anything but success ends the script with its reason.
# curl tries again what broke, and waits as long as a busy service says.
request() {
    answer=$1
    shift
    code=$(curl --silent --show-error --retry "${RETRIES:-5}" --retry-connrefused --retry-max-time 120 --connect-timeout 10 \
        ${SHARDPLAN_CA_FILE:+--cacert "$SHARDPLAN_CA_FILE"} --header "@$work/credentials" \
        --output "$answer" --write-out '%{http_code}' "$@") || fail 4 "no answer from $server"
    case $code in
    2??) return ;;
    esac
    reason=$(jq -r '"\(.detail) [\(.code)]"' "$answer" 2>/dev/null) || reason="status $code"
    case $(jq -r '.kind // ""' "$answer" 2>/dev/null) in
    nofit) fail 3 "$reason" ;;
    model | unsupported) fail 1 "$reason" ;;
    malformed | limit | request) fail 2 "$reason" ;;
    *) fail 4 "$reason" ;;
    esac
}

# The model; what the service has already costs nothing but the way.
name=$(basename "$model" | tr -d '\n' | jq -sRr @uri)
request "$work/model" --request POST --upload-file "$model" --header 'Content-Type: application/octet-stream' \
    "$server/v1/models?name=$name"
id=$(jq -r .id "$work/model")
echo "model $id"

# The plan. With one key a submission that is made twice is one plan.
if [ -n "${CLUSTER:-}" ]; then
    jq -c . "$CLUSTER" >"$work/cluster" || fail 2 "$CLUSTER is no JSON"
else
    jq -nc --arg device "${DEVICE:-a100-sxm4-80gb}" --argjson count "${DEVICES:-4}" '{$device, $count}' >"$work/cluster" ||
        fail 2 "DEVICES must be a number"
fi
if [ -n "${WORKLOAD:-}" ]; then
    jq -c . "$WORKLOAD" >"$work/workload" || fail 2 "$WORKLOAD is no JSON"
else
    [ -z "${MAX_TTFT_SECONDS:-}${MAX_TPOT_SECONDS:-}" ] || fail 2 "MAX_TTFT_SECONDS and MAX_TPOT_SECONDS need a WORKLOAD"
    : >"$work/workload"
fi
jq -nc --arg model "$id" --slurpfile cluster "$work/cluster" --arg objective "${OBJECTIVE:-throughput}" \
    --slurpfile workload "$work/workload" \
    '{$model, cluster: $cluster[0], $objective} + if $workload == [] then {} else {workload: $workload[0]} end' \
    >"$work/question"
key=$({ cat "$work/question"; echo "${PIPELINE_RUN:-$work}"; } | sha256sum | cut -c 1-64)
request "$work/plan" --header 'Content-Type: application/json' --header "Idempotency-Key: $key" \
    --header 'Prefer: wait=30' --data-binary "@$work/question" "$server/v1/plans"
plan=$(jq -r .id "$work/plan")
echo "plan $plan"
left=${PLAN_SECONDS:-900}
while state=$(jq -r .state "$work/plan") && { [ "$state" = queued ] || [ "$state" = running ]; }; do
    [ "$left" -gt 0 ] || fail 4 "the plan is not finished yet: $(jq -c .progress "$work/plan")"
    left=$((left - 1))
    sleep 1
    request "$work/plan" "$server/v1/plans/$plan"
done
# One that an earlier try asked for comes without the plan itself.
[ "$state" != succeeded ] || request "$work/plan" "$server/v1/plans/$plan"
case $state in
succeeded) ;;
failed)
    reason=$(jq -r '.error | "\(.detail) [\(.code)]"' "$work/plan")
    case $(jq -r '.error.kind // ""' "$work/plan") in
    nofit) fail 3 "$reason" ;;
    *) fail 1 "$reason" ;;
    esac
    ;;
*) fail 4 "the plan is $state" ;;
esac
request "$work/text" --header 'Accept: text/plain' "$server/v1/plans/$plan"
cat "$work/text"

# The gate: a line for everything that is wrong.
jq -r --arg latency "${MAX_LATENCY_SECONDS:-}" --arg share "${MAX_MEMORY_SHARE:-1}" \
    --arg ttft "${MAX_TTFT_SECONDS:-}" --arg tpot "${MAX_TPOT_SECONDS:-}" '
    .plan
    | (.service.ttft_seconds as $is | select($ttft != "" and ($is == null or $is > ($ttft | tonumber)))
       | "the time to the first token is \($is) s, above \($ttft) s"),
      (.service.tpot_seconds as $is | select($tpot != "" and ($is == null or $is > ($tpot | tonumber)))
       | "the time per output token is \($is) s, above \($tpot) s"),
      (.estimate.latency_seconds as $is | select($latency != "" and $is > ($latency | tonumber))
       | "the latency is \($is) s, above \($latency) s"),
      (.devices[] | (.memory.total_bytes / .memory.capacity_bytes) as $is | select($is > ($share | tonumber))
       | "device \(.id) would be full to \($is * 100 | round) %"),
      (.diagnostics[] | select(.severity == "error") | "\(.message) [\(.code)]")' "$work/plan" >"$work/faults" ||
    fail 2 "MAX_LATENCY_SECONDS, MAX_TTFT_SECONDS, MAX_TPOT_SECONDS and MAX_MEMORY_SHARE must be numbers"
if [ -s "$work/faults" ]; then
    sed 's/^/plan.sh: /' "$work/faults" >&2
    exit 1
fi

# Both files appear when they are complete.
umask "$mask"
jq .plan "$work/plan" >"$output.plan.json.part"
request "$output.part" "$server/v1/plans/$plan/model"
mv "$output.plan.json.part" "$output.plan.json"
mv "$output.part" "$output"
echo "wrote $output and $output.plan.json"
