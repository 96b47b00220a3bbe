#!/bin/sh
# A claude of a few lines. What it does is said in the input; what it remembers lies in $FAKE_MEMORY.
[ "$1" = --version ] && { echo "${FAKE_VERSION:-2.1.329} (Claude Code)"; exit 0; }
if [ "$1" = auth ]; then echo '{"loggedIn": true, "authMethod": "api_key"}'; exit 0; fi
printf '%s\n' "$*" >>"$FAKE_MEMORY/command-lines"
id= resume= fork= at=
while [ $# -gt 0 ]; do
    case "$1" in
    --session-id) id=$2 ;;
    --resume) id=$2 resume=yes ;;
    --fork-session) fork=yes ;;
    --resume-session-at) at=$2 ;;
    esac
    shift
done
if [ -n "$resume" ] && [ ! -e "$FAKE_MEMORY/$id" ]; then
    echo "No conversation found with session ID: $id" >&2
    printf '{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"%s","total_cost_usd":0,"errors":["No conversation found with session ID: %s"]}\n' "$id" "$id"
    exit 1
fi
cost=0
[ -e "$FAKE_MEMORY/$id" ] && read -r cost <"$FAKE_MEMORY/$id"
# The n-th message of a conversation has the number n at the end of its id.
if [ -n "$fork" ]; then
    if [ -n "$at" ]; then
        number=${at##*-} number=${number#"${number%%[!0]*}"}
        if [ "$number" -gt "$cost" ]; then
            printf '{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"%s","total_cost_usd":0,"errors":["No message found with message.uuid of: %s"]}\n' "$id" "$at"
            exit 1
        fi
        cost=$number
    fi
    id=$(printf 'f0000000-0000-4000-8000-%012d' "$(wc -l <"$FAKE_MEMORY/command-lines")")
    echo "$cost" >"$FAKE_MEMORY/$id"
fi
# The last member of this name, into $value.
member() { value=${line##*\"$1\":\"} value=${value%%\"*}; }
say() { printf '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}},"parent_tool_use_id":null}\n' "$1"; }
begin() {
    printf '{"type":"system","subtype":"init","session_id":"%s","model":"fake-model","permissionMode":"default","mcp_servers":[],"slash_commands":["compact"]}\n' "$id"
    printf '{"type":"stream_event","event":{"type":"message_start","message":{"id":"m%s","usage":{"input_tokens":10,"output_tokens":1}}},"parent_tool_use_id":null}\n' "$cost"
    printf '{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"parent_tool_use_id":null}\n'
}
end() {
    cost=$((cost + 1))
    echo "$cost" >"$FAKE_MEMORY/$id"
    printf '{"type":"assistant","message":{"id":"m%s","content":[]},"uuid":"00000000-0000-4000-8000-%012d","session_id":"%s","parent_tool_use_id":null}\n' "$((cost - 1))" "$cost" "$id"
    printf '{"type":"result",%s,"num_turns":1,"session_id":"%s","total_cost_usd":%s,"usage":{"input_tokens":10,"output_tokens":5},"user_message_uuids":["%s"]}\n' "$1" "$id" "$cost" "$uuid"
}
done_='"subtype":"success","is_error":false,"terminal_reason":"completed","result":"x"'
cut='"subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","errors":["[ede_diagnostic]"]'
ask() { printf '{"type":"control_request","request_id":"%s","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"%s"},"tool_use_id":"toolu_%s"}}\n' "$1" "$1" "$1"; }
ok() { member request_id; printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{}}}\n' "$value"; }
pending=
while IFS= read -r line; do
    case "$line" in
    *'"subtype":"interrupt"'*)
        [ "$pending" = deaf ] && continue
        ok
        [ -n "$pending" ] && { pending=; end "$cut"; }
        ;;
    *'"type":"control_request"'*) ok ;;
    *'"type":"control_response"'*)
        member request_id
        case "$line" in *'"behavior":"allow"'*) say "allowed $value. " ;; *) say "denied $value. " ;; esac
        pending=${pending#?}
        [ -z "$pending" ] && end "$done_"
        ;;
    *'"type":"user"'*)
        member uuid
        uuid=$value
        begin
        case "$line" in
        *'do: ask'*) pending=12; ask one; ask two ;;
        *'do: withdraw'*) ask gone; printf '{"type":"control_cancel_request","request_id":"gone"}\n'; say withdrawn; end "$done_" ;;
        *'do: slow'*) pending=slow; say tick ;;
        *'do: deaf'*) pending=deaf; say tick ;;
        *'do: silent'*) pending=slow ;;
        *'do: die'*) echo "out of luck" >&2; exit 3 ;;
        *'do: leave'*) say bye; end "$done_"; exit 0 ;;
        *'do: flood'*) i=0; while [ $i -lt 3000 ]; do say "$i "; i=$((i + 1)); done; end "$done_" ;;
        *) say "hello $cost"; end "$done_" ;;
        esac
        ;;
    esac
done
