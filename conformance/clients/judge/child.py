"""The command that a client starts: its stdin and stdout are a pipe of the scripted daemon. `child.py FOLDER`."""

import os
import socket
import sys
import threading

folder = sys.argv[1]


def status() -> int:
    try:
        with open(f"{folder}/status") as file:
            return int(file.read())
    except OSError:
        return 1


with open(f"{folder}/runs", "a") as runs:
    runs.write(".")
if os.path.exists(f"{folder}/refuses"):
    os._exit(status())
pipe = socket.socket(socket.AF_UNIX)
try:
    pipe.connect(f"{folder}/command.sock")
except OSError:
    os._exit(status())


def read_stdin() -> None:
    while data := os.read(0, 65536):
        try:
            pipe.sendall(data)
        except OSError:
            return
    os._exit(0)


threading.Thread(target=read_stdin, daemon=True).start()
try:
    while data := pipe.recv(65536):
        while data:
            data = data[os.write(1, data) :]
except OSError:
    pass
os._exit(status())
