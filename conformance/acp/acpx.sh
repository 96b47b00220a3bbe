# Uses `trunkline acp` through acpx as a person does, in the folder $1: one shot, a permission, a session over two prompts.
# The lines of both sides go to the file $2; `play.py --keep` makes acpx/recording.jsonl of them.
set -euo pipefail
acp=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
here=$acp/acpx
# Not `npm ci`, which wants packages for every other machine in the lock file, too.
[ -d "$here/node_modules" ] || npm install --no-save --silent --prefix "$here" || exit 77
PATH="$here/node_modules/node/bin:$here/node_modules/.bin:$PATH"
cd "$1"
agent="python3 '$acp/record.py' '$2' trunkline acp"
use() { timeout 60 acpx --agent "$agent" --format quiet "$@" 2>>acpx.err; }

is() {
    [ "$2" = "$3" ] || {
        printf 'acpx: %s gave %s, not %s\n' "$1" "$2" "$3" >&2
        exit 1
    }
}

is 'one shot' "$(use --approve-all exec 'hello acpx')" 'hello acpx'
is 'a permission that is granted' "$(use --approve-all exec '/tool ls')" 'ran ls'
is 'one that is denied' "$(use --deny-all exec '/tool ls' || true)" 'denied ls'
use sessions new >/dev/null
is 'a session' "$(use --approve-all prompt one)" 'one'
# The process that keeps the session ends at once after this one.
is 'the session again' "$(use --approve-all --ttl 1 prompt two)" 'two'
use sessions close >/dev/null
is 'the journal' "$(trunkline sessions list --json | grep -o '"session_id"' | wc -l)" 4
# acpx ends all that descends from its agent; the daemon is no such thing.
trunkline down
echo 'acpx: one shot, permissions, a session'
