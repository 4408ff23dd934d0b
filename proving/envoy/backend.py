"""A backend that counts what reaches it, by tenant, and holds requests to /hold
until somebody asks for /release."""
import collections
import http.server
import json
import sys
import threading

counts = collections.Counter()
lock = threading.Lock()
held = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def do_GET(self):
        status, body = 200, b"served\n"
        if self.path == "/counts":
            with lock:
                body = json.dumps(counts).encode()
        elif self.path == "/release":
            held.set()
        else:
            with lock:
                counts[self.headers.get("x-tenant", "")] += 1
            if self.path == "/hold":
                held.wait(30)
            elif self.path == "/busy":
                status = 503
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
