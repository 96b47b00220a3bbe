"""A server that echoes, and `trunkline-adapter generic-http` that asks it: both live as long as the adapter.

Only what starts fast is imported: the conformance suite starts it for each of its cases."""

import os
import signal
import socket
import sys
import threading
import time


def answer(connection):
    data = bytearray()
    while True:
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        head, data = data.split(b"\r\n\r\n", 1)
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(data) < length:
            data += connection.recv(1 << 20)
        body, data = data[:length], data[length:]
        if body == b"count":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for number in range(600):
                connection.sendall(b"data: %d\n\n" % number)
                time.sleep(0.1)
            return
        status = b"500 Told To Fail" if body == b"fail" else b"200 OK"
        head = b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(head % (status, len(body)) + body)


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        try:
            answer(connection)
        except OSError:
            pass  # The adapter has gone, or has stopped the turn.


def listen(server):
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


server = socket.create_server(("127.0.0.1", 0), backlog=64)
config = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"http-echo-{os.getpid()}.json")
with open(config, "x") as file:
    file.write('{"base_url": "http://127.0.0.1:%d/"}' % server.getsockname()[1])
adapter = os.posix_spawnp(
    "trunkline-adapter",
    ["trunkline-adapter", "generic-http", *sys.argv[1:]],
    {**os.environ, "ADAPTER_CONFIG": config},
)
for end in (0, 1):
    os.close(end)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: os.kill(adapter, number))
threading.Thread(target=listen, args=(server,), daemon=True).start()
_, status = os.waitpid(adapter, 0)
os.unlink(config)
os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
