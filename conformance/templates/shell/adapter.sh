#!/bin/sh
# An adapter in one jq program (jq 1.6 or later). Your agent goes into `answer`.
# jq starts no programs and waits for nothing, so this one can only compute; for an agent that is a program of its
# own, take a skeleton in another language. It keeps the core of the protocol (`--class core`): jq takes bytes that
# are not UTF-8 for U+FFFD, so it cannot tell such noise from a message. jq 1.6 also garbles a character of a long line
# where its buffer ends, so there is no probe for the conformance suite: it could not say a long text back.
command -v jq >/dev/null || { echo "adapter.sh: jq is not installed" >&2; exit 2; }

exec 3<&0 # a background command would lose stdin
jq --null-input --raw-input --compact-output --ascii-output --unbuffered '
# One turn: the text of the user goes in, the text of the answer comes out.
def answer: "You said: " + .;

# What follows is the protocol. For its core nothing below here needs to change. A line may be of any length: jq keeps it whole.
def decode: # noise gives nothing, nor do the NUL and NaN that jq lets pass; half a surrogate pair becomes U+FFFD
  ltrimstr("\ufeff") | select(test("\\x00") | not) | . as $line
  | try fromjson catch ($line | gsub("\\\\u[dD][89abAB]..(?!\\\\u[dD][c-fC-F])"; "\\ufffd") | fromjson?)
  | objects | select(any(.. | numbers; isnan) | not);
def send($id; $type; $fields): .out += [{type: $type, session_id: $id} + $fields];
def handle($m; $id): # what fits no branch is ignored; a turn is over at once, so there is nothing to stop
  if .sessions[$id] == null then # unknown or closed, but for a start
    if $m.type == "session.start" and $id != "" and ($id | utf8bytelength) <= 256 then .sessions[$id] = {} else . end
  elif $m.type == "user.input" and ($m.content | type == "string" or . == null) then
    ([$m.content | if . == null then "" else . end | answer]) as $said # a failure ends jq: keep `answer` total
    | send($id; "output"; {content: ($said | join("")), channel: "stdout"}) | send($id; "turn.complete"; {})
  elif $m.type == "session.close" then del(.sessions[$id])
  else . end;
foreach (inputs | decode) as $m ({sessions: {}};
  .out = [] | ($m.session_id | if type == "string" then . else "" end) as $id | handle($m; $id);
  .out[])
' <&3 &
trap 'kill "$!"; exit 0' TERM
wait "$!" || [ "$?" -eq 141 ] # 141: no one reads any more
