# An interactive program: answers each line, and says when it is done.
trap 'echo interrupted; echo "<END>"' INT
while :; do
    read -r line || { [ $? -gt 128 ] && continue || exit 0; }
    case $line in
    count) i=0; while [ $i -lt 600 ]; do i=$((i + 1)); echo $i; sleep 0.1 || break; done ;;
    crash) echo 'told to crash' >&2; exit 3 ;;
    *) printf '%s\n' "$line" ;;
    esac
    echo "<END>"
done
