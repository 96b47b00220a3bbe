#!/bin/sh
# An app server and an `exec` that do what the input says. Everything that it reads goes to $FAKE_DIR/told.
case "$*" in
*--version*)
    echo "codex-cli ${FAKE_VERSION:-0.169.0}"
    exit 0
    ;;
*login*status*)
    exit "${FAKE_LOGIN:-0}"
    ;;
*exits*)
    echo "Error: the configuration is broken" >&2
    exit 3
    ;;
*exec*)
    printf '%s\n' "exec $*" >>"$FAKE_DIR/told"
    read -r text
    case "$*" in
    *resume*unknown*)
        echo "Error: no rollout found for thread id unknown" >&2
        exit 1
        ;;
    esac
    echo '{"type":"thread.started","thread_id":"exec-thread"}'
    [ "$text" = hang ] && exec sleep 60
    if [ "$text" = retries ]; then
        echo '{"type":"error","message":"Reconnecting... 2/5 (no address)"}'
        exec sleep 60
    fi
    printf '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"exec said %s"}}\n' "$text"
    echo '{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":2}}'
    exit 0
    ;;
esac
echo $$ >>"$FAKE_DIR/starts"

say() {
    printf '%s\n' "$1"
}

ended() {
    say "{\"method\":\"turn/completed\",\"params\":{\"threadId\":\"$thread\",\"turn\":{\"id\":\"$turn\",\"status\":\"$1\",\"error\":null}}}"
}

delta() {
    say "{\"method\":\"item/agentMessage/delta\",\"params\":{\"threadId\":\"$thread\",\"turnId\":\"$turn\",\"itemId\":\"m-$turn\",\"delta\":\"$1\"}}"
}

command() {
    item="{\"type\":\"commandExecution\",\"id\":\"c-$turn\",\"command\":\"bash -lc ls\",\"cwd\":\"/\",\"status\":\"inProgress\"}"
    say "{\"method\":\"item/started\",\"params\":{\"threadId\":\"$thread\",\"turnId\":\"$turn\",\"item\":$item}}"
}

asks() {
    asked=$thread
    params="{\"threadId\":\"$thread\",\"turnId\":\"$turn\",\"itemId\":\"c-$turn\",\"command\":\"bash -lc ls\",\"cwd\":\"/\"}"
    say "{\"method\":\"$1\",\"id\":\"ask-$turn\",\"params\":$params}"
}

deaf=none
threads=0
turns=0
while IFS= read -r line; do
    printf '%s\n' "$line" >>"$FAKE_DIR/told"
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    named=${line#*\"threadId\":\"}
    named=${named%%\"*}
    case "$line" in
    *'"method":"initialize"'*) say "{\"id\":$id,\"result\":{}}" ;;
    *'"method":"model/list"'*)
        case "${FAKE_MODELS:-some}" in
        some) say "{\"id\":$id,\"result\":{\"data\":[{\"id\":\"one\",\"model\":\"one\",\"displayName\":\"One\"},7],\"nextCursor\":null}}" ;;
        again) say "{\"id\":$id,\"result\":{\"data\":[],\"nextCursor\":\"again\"}}" ;;
        none) say "{\"id\":$id,\"error\":{\"code\":-32600,\"message\":\"unknown method\"}}" ;;
        mute) ;;
        esac
        ;;
    *'"method":"thread/start"'*)
        threads=$((threads + 1))
        say "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"thread-$threads\"},\"model\":\"m\",\"modelProvider\":\"p\"}}"
        ;;
    *'"method":"thread/fork"'*)
        case "$line" in
        *'"lastTurnId":"turn-9"'*) say "{\"id\":$id,\"error\":{\"code\":-32600,\"message\":\"turn not found: turn-9\"}}" ;;
        *) say "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"copy-of-$named\"},\"model\":\"m\",\"modelProvider\":\"p\"}}" ;;
        esac
        ;;
    *'"method":"thread/resume"'*)
        case "$named" in
        *unknown*) say "{\"id\":$id,\"error\":{\"code\":-32600,\"message\":\"no rollout found for thread id $named\"}}" ;;
        *) say "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"$named\"},\"model\":\"m\",\"modelProvider\":\"p\"}}" ;;
        esac
        ;;
    *'"method":"turn/start"'*)
        thread=$named
        turns=$((turns + 1))
        turn="turn-$turns"
        text=${line#*\"text\":\"}
        text=${text%%\"*}
        say "{\"id\":$id,\"result\":{\"turn\":{\"id\":\"$turn\"}}}"
        case "$text" in
        hang)
            delta "hanging"
            command
            ;;
        deaf)
            deaf=$turn
            delta "hanging"
            command
            ;;
        ask)
            command
            asks item/commandExecution/requestApproval
            ;;
        withdraw)
            command
            asks item/commandExecution/requestApproval
            ;;
        odd)
            say 'no JSON at all'
            say '{"method":"thread/news","params":{"threadId":7}}'
            asks news/no one/knows
            ;;
        flood)
            head -c 3000000 /dev/zero | tr '\0' x | fold -w 100000 | while IFS= read -r piece || [ -n "$piece" ]; do delta "$piece"; done
            ended completed
            ;;
        dies) exit 9 ;;
        *)
            delta "$thread heard $text"
            ended completed
            ;;
        esac
        ;;
    *'"method":"turn/interrupt"'*)
        thread=$named
        turn=${line#*\"turnId\":\"}
        turn=${turn%%\"*}
        say "{\"id\":$id,\"result\":{}}"
        [ "$turn" = "$deaf" ] || ended interrupted
        ;;
    *'"method":"turn/steer"'*)
        say "{\"id\":$id,\"result\":{}}"
        delta " and then ${line##*\"text\":\"}" | sed 's/ and then \([^"]*\)".*"}}$/ and then \1"}}/'
        ended completed
        ;;
    *'"method":"go/on"'*) ;;
    *'"id":"ask-'*)
        thread=$asked
        turn=${line#*\"id\":\"ask-}
        turn=${turn%%\"*}
        delta "answered"
        ended completed
        ;;
    *'"id"'*) say "{\"id\":$id,\"result\":{}}" ;;
    esac
    case "$text:$line" in
    withdraw:*turn/start*)
        say "{\"method\":\"serverRequest/resolved\",\"params\":{\"threadId\":\"$thread\",\"requestId\":\"ask-$turn\"}}"
        delta "withdrawn"
        ended completed
        ;;
    esac
done
