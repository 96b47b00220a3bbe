#!/bin/sh
# A client of the daemon that is curl and a shell: curl.sh URL, with a token of scope control in TRUNKLINE_TOKEN.
set -eu
url=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The token stands in no command line.
printf 'header = "Authorization: Bearer %s"\n' "$TRUNKLINE_TOKEN" >"$scratch/auth"

# ask STATUS ARGUMENT...: prints the answer's body.
ask() {
    expected=$1
    shift
    status=$(curl -sS --max-time 60 -K "$scratch/auth" -o "$scratch/body" -w '%{http_code}' "$@")
    cat "$scratch/body"
    [ "$status" = "$expected" ] || { echo "$* answers $status and not $expected" >&2; exit 1; }
}

# A member of an answer that is a text.
member() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

id=$(ask 201 -d '{}' "$url/v1/sessions" | member id)
text=$(ask 200 -d '{"content": "hello"}' "$url/v1/sessions/$id/inputs?wait=end" | member text)
[ "$text" = hello ] || { echo "it said '$text'" >&2; exit 1; }

printf 'of curl' >"$scratch/note"
sha256=$(ask 201 -T "$scratch/note" "$url/v1/sessions/$id/files?name=note.txt" | member sha256)
[ "$sha256" = "$(sha256sum "$scratch/note" | cut -d ' ' -f 1)" ]
ask 200 -d "{\"content\": \"/file out.txt\", \"files\": [\"$sha256\"]}" "$url/v1/sessions/$id/inputs?wait=end" >"$scratch/turn"

# What has happened comes at once, and the stream goes on.
curl -sS -N --max-time 60 -K "$scratch/auth" "$url/v1/sessions/$id/events" >"$scratch/events" &
reader=$!
ask 202 -d '{"content": "/sleep 600"}' "$url/v1/sessions/$id/inputs" >"$scratch/turn"
ask 202 -X POST "$url/v1/sessions/$id/stop" >"$scratch/stop"
ask 204 -X DELETE "$url/v1/sessions/$id"
wait "$reader"
[ "$(grep -c '^event: turn.complete$' "$scratch/events")" = 3 ]
grep -q '^event: session.closed$' "$scratch/events"
[ "$(grep '^id: ' "$scratch/events" | cut -c 5-)" = "$(seq "$(grep -c '^id: ' "$scratch/events")")" ]

given=$(sed -n 's/^data: {"type":"file.output".*"sha256":"\([0-9a-f]*\)".*/\1/p' "$scratch/events")
ask 200 "$url/v1/sessions/$id/files/$given" >"$scratch/file"
[ "$given" = "$(sha256sum "$scratch/file" | cut -d ' ' -f 1)" ]

ask 204 -X DELETE "$url/v1/sessions/$id?remove=true"
ask 404 "$url/v1/sessions/$id" | grep -q '"status":404'
echo 'the client of curl: three turns, files both ways, a stream to its end'
