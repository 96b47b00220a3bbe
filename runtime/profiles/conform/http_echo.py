"""A server that echoes, and `trunkline-adapter generic-http` that asks it: both live as long as the adapter."""

import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if body == b"count":
            return self.count()
        self.send_response(500 if body == b"fail" else 200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def count(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(600):
            try:
                self.wfile.write(b"data: %d\n\n" % number)
            except OSError:
                return
            time.sleep(0.1)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as folder:
    config = os.path.join(folder, "config.json")
    with open(config, "w") as file:
        json.dump({"base_url": f"http://127.0.0.1:{server.server_port}/"}, file)
    adapter = subprocess.Popen(
        ["trunkline-adapter", "generic-http", *sys.argv[1:]], env={**os.environ, "ADAPTER_CONFIG": config}
    )
    for sink in (sys.stdin, sys.stdout):
        os.close(sink.fileno())
    signal.signal(signal.SIGTERM, lambda *_: adapter.terminate())
    signal.signal(signal.SIGINT, lambda *_: adapter.send_signal(signal.SIGINT))
    code = adapter.wait()
os._exit(code if code >= 0 else 128 - code)
