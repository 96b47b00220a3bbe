# A job: reads its whole input, does something, and ends.
input=$(cat)
case $input in
count) i=0; while [ $i -lt 600 ]; do i=$((i + 1)); echo $i; sleep 0.1; done ;;
fail) echo 'told to fail' >&2; exit 3 ;;
*) printf '%s' "$input" ;;
esac
