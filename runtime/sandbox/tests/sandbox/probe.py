"""Runs inside a sandbox with an allow-list: tries every way out and prints each result."""
import os, socket, ssl, sys

port = int(sys.argv[1])
proxy = os.environ["http_proxy"].rpartition(":")[2]


def ask(text):
    with socket.create_connection(("127.0.0.1", int(proxy)), 20) as link:
        link.sendall(text.encode())
        link.shutdown(socket.SHUT_WR)
        answer = b""
        while part := link.recv(65536):
            answer += part
    head = answer.decode(errors="replace").split("\r\n")
    reason = [line.split(": ")[1] for line in head if line.lower().startswith("x-trunkline-denied")]
    return " ".join([head[0].split(" ")[1], *reason])


def get(target, host=None):
    return ask(f"GET http://{target}/ HTTP/1.1\r\nHost: {host or target}\r\nConnection: close\r\n\r\n")


def connect(target, server_name):
    with socket.create_connection(("127.0.0.1", int(proxy)), 20) as link:
        link.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = link.recv(65536).decode()
        if " 200 " not in answer:
            return answer.split(" ")[1]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            link.sendall(outgoing.read())
        answer = link.recv(65536)
        return "reached" if answer == b"tls here" else "refused"


def direct(host, port):
    try:
        socket.create_connection((host, port), 20).close()
        return "reached"
    except OSError:
        return "refused"


for name, found in {
    "allowed": get(f"allowed.test:{port}"),
    "other name": get(f"other.test:{port}"),
    "private address by name": get(f"private.test:{port}"),
    "address": get(f"10.1.2.3:{port}"),
    "other port": get(f"allowed.test:{port + 1}"),
    "other host": get(f"allowed.test:{port}", "other.test"),
    "tunnel": connect(f"allowed.test:{port}", "allowed.test"),
    "tunnel, wrong server name": connect(f"allowed.test:{port}", "other.test"),
    "tunnel, no server name": connect(f"allowed.test:{port}", None),
    "tunnel, other name": connect(f"other.test:{port}", "other.test"),
    "direct, loopback": direct("127.0.0.1", port),
    "direct, public": direct("192.0.2.1", 80),
    "direct, name": direct("allowed.test", port),
}.items():
    print(f"{name}: {found}")
