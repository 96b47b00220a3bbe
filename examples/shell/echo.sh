#!/bin/sh
# An echo adapter in one jq program (1.6 or later): many sessions, queued inputs, stop, a permission demo.
# jq has no clock to wait for, so there is no /sleep: a turn is over at once or waits for an answer.
command -v jq >/dev/null || { echo "echo.sh: jq is not installed (https://jqlang.org)" >&2; exit 2; }

exec 3<&0 # a background command would lose stdin
jq --null-input --raw-input --compact-output --ascii-output --unbuffered '
def decode: # noise gives nothing, nor do the NUL and NaN that jq lets pass; half a surrogate pair becomes U+FFFD
  ltrimstr("\ufeff") | select(test("\\x00") | not) | . as $line
  | try fromjson catch ($line | gsub("\\\\u[dD][89abAB]..(?!\\\\u[dD][c-fC-F])"; "\\ufffd") | fromjson?)
  | objects | select(any(.. | numbers; isnan) | not);
def send($id; $type; $fields): .out += [{type: $type, session_id: $id} + $fields];
def finish($id; $text): # null: stopped
  if $text == null then . else send($id; "output"; {content: $text, channel: "stdout"}) end
  | send($id; "turn.complete"; {}) | .sessions[$id].turn = null;
def serve($id): # starts queued inputs until one has to wait
  .sessions[$id].inputs[0] as $text
  | if .sessions[$id].turn or $text == null then . else
      .sessions[$id].inputs |= .[1:]
      | (first($text | capture("^/tool (?<tool>\\S+)").tool) // null) as $tool
      | if $tool then
          .asks += 1 | "ask-\(.asks)" as $ask | .sessions[$id].turn = {$ask, $tool}
          | send($id; "permission.request"; {request_id: $ask, $tool, description: "Run \($tool)", resource: $tool})
        else finish($id; $text) | serve($id) end
    end;
def drain($id): if .sessions[$id].turn then finish($id; null) | serve($id) | drain($id) else . end;
def handle($m; $id): # what fits no branch is ignored
  .sessions[$id].turn as $turn
  | if .sessions[$id] == null then # unknown or closed, but for a start
      if $m.type == "session.start" and $id != "" and ($id | utf8bytelength) <= 256
      then .sessions[$id] = {inputs: []} else . end
    elif $m.type == "user.input" and ($m.content | type == "string" or . == null) then
      .sessions[$id].inputs += [$m.content | if . == null then "" else . end] | serve($id)
    elif $m.type == "permission.response" and $turn and $turn.ask == $m.request_id then
      finish($id; (if $m.approved == true then "ran " else "denied " end) + $turn.tool) | serve($id)
    elif $m.type == "stop" and $turn then finish($id; null) | serve($id)
    elif $m.type == "session.close" then del(.sessions[$id])
    else . end;
foreach ((inputs | decode), null) as $m ({sessions: {}, asks: 0};
  .out = [] | if $m == null then reduce (.sessions | keys[]) as $id (.; drain($id)) # end of input
  else ($m.session_id | if type == "string" then . else "" end) as $id | handle($m; $id) end;
  .out[])
' <&3 &
trap 'kill "$!"; exit 0' TERM
wait "$!" || [ "$?" -eq 141 ] # 141: no one reads any more
