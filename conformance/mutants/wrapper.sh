#!/bin/sh
# Starts a program as a child, as wrappers do that forget `exec`.
"$@"
exit $?
