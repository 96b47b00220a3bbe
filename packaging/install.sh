#!/bin/sh
# Installs the programs of a release for the user who runs it, once their checksum is found right:
#
#   curl -fsSLO https://github.com/OWNER/REPOSITORY/releases/latest/download/install.sh
#   sh install.sh
#
# TRUNKLINE_VERSION   a version, such as 0.1.0; else the newest
# TRUNKLINE_BIN       the folder that the programs go to; else ~/.local/bin
# TRUNKLINE_RELEASES  where releases are, if not where this script is from: an https address, or http on 127.0.0.1
#
# What fails leaves nothing behind, and the programs that were there.
set -eu

releases=${TRUNKLINE_RELEASES:-@REPOSITORY@/releases}
folder=
new=

fail() {
    printf 'trunkline is not installed: %s\n' "$1" >&2
    exit 1
}

clean() {
    [ -z "$folder" ] || rm -rf "$folder"
    # Split on purpose: names of ours, in a folder that the shell is in.
    # shellcheck disable=SC2086
    [ -z "$new" ] || rm -f $new
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# fetch ADDRESS FILE LIMIT: within so many bytes, and by the same protocol after each redirect.
fetch() {
    curl --fail --silent --show-error --location --proto "=$protocol" \
        --connect-timeout 30 --speed-limit 1000 --speed-time 60 --retry 2 --max-filesize "$3" --output "$2" "$1" ||
        fail "$1 could not be had"
}

main() {
    case "$releases" in
        https://*) protocol=https ;;
        http://127.0.0.1:*)
            port=${releases#http://127.0.0.1:}
            case "${port%%/*}" in '' | *[!0-9]*) fail "$releases is no address of this machine" ;; esac
            protocol=http
            ;;
        @*) fail 'this copy does not know where releases are: set TRUNKLINE_RELEASES' ;;
        *) fail "$releases is neither https nor on 127.0.0.1" ;;
    esac
    [ "$(uname -s)" = Linux ] || fail 'it runs on Linux only'
    case "$(uname -m)" in
        x86_64 | amd64) processor=x86_64 ;;
        aarch64 | arm64) processor=aarch64 ;;
        *) fail "there is no build for $(uname -m): build it from source" ;;
    esac
    for program in curl sha256sum tar gzip mktemp; do
        command -v "$program" >/dev/null || fail "it needs $program"
    done
    case "${TRUNKLINE_VERSION:-}" in
        '') from=$releases/latest/download ;;
        *[!0-9A-Za-z.+-]*) fail "$TRUNKLINE_VERSION is no version" ;;
        *) from=$releases/download/v${TRUNKLINE_VERSION#v} ;;
    esac
    bin=${TRUNKLINE_BIN:-${HOME:?}/.local/bin}
    name=trunkline-$processor-unknown-linux-musl

    folder=$(mktemp -d)
    fetch "$from/SHA256SUMS" "$folder/SHA256SUMS" 100000
    # One line, of exactly this file. A sum of no file, or two, decides nothing.
    wanted=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\.tar\.gz\$/\1/p" "$folder/SHA256SUMS")
    [ "${#wanted}" -eq 64 ] || fail "SHA256SUMS has no checksum of $name.tar.gz"
    fetch "$from/$name.tar.gz" "$folder/archive" 200000000
    found=$(sha256sum "$folder/archive")
    found=${found%% *}
    [ "$found" = "$wanted" ] || fail "$name.tar.gz has the checksum $found, and not $wanted"

    tar -xzf "$folder/archive" -C "$folder" || fail "$name.tar.gz is no archive"
    for program in trunkline trunkline-conformance; do
        [ -f "$folder/$name/$program" ] || fail "$name.tar.gz has no $program"
    done
    "$folder/$name/trunkline" version >"$folder/version" || fail 'the program does not run here'

    mkdir -p "$bin"
    cd "$bin"
    new=".trunkline.new-$$ .trunkline-conformance.new-$$"
    for program in trunkline trunkline-conformance; do
        cp "$folder/$name/$program" ".$program.new-$$"
        chmod 755 ".$program.new-$$"
    done
    for program in trunkline trunkline-conformance; do
        mv -f ".$program.new-$$" "$program"
    done
    new=
    printf '%s is in %s\n' "$(head -n 1 "$folder/version")" "$(pwd)"
    case ":$PATH:" in *":$(pwd):"*) ;; *) echo 'add that folder to PATH' ;; esac
}

# At the end: a script that was cut off on its way does nothing.
main
