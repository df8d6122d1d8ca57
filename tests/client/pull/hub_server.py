"""A server that answers like the hub, and one beside it that answers like its content network.

Large files (*.safetensors, *.gguf) are redirected to the second one, as the hub does it: with
X-Linked-Etag and X-Linked-Size. Small ones are redirected within the hub. `faults` say what goes
wrong.
"""

import collections
import hashlib
import http.server
import json
import socket
import threading
import time
import urllib.parse

LARGE = (".safetensors", ".gguf")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def etag_of(name, content):
    return hashlib.sha256(content).hexdigest() if name.endswith(LARGE) else git_sha1(content)


class Repository:
    def __init__(self, files, commit=COMMIT, gated=False, token=None):
        self.files = files  # {name: bytes}
        self.commit = commit
        self.gated = gated
        self.token = token  # private to whoever has it
        self.renamed = None
        self.revisions = {"main": commit}


class Faults:
    """What goes wrong, by file. All are counted down: after so many times it goes right."""

    def __init__(self):
        self.cut = {}  # name: (bytes that come before the connection ends, times)
        self.stall = {}  # name: times that nothing comes
        self.status = {}  # path's end: (status, headers, times)
        self.content = {}  # name: what comes in place of the right bytes
        self.size = {}  # name: what the hub says of its size
        self.pieces = {}  # name: iterator over how many bytes each connection brings before it ends
        self.endless = None  # path's end: a reply of status 500 whose body never ends
        self.ranges = True

    @staticmethod
    def take(table, name):
        if name not in table:
            return None
        *value, times = table[name] if isinstance(table[name], tuple) else (True, table[name])
        if times <= 0:
            return None
        table[name] = (*value, times - 1)
        return value[0] if len(value) == 1 else value


Request = collections.namedtuple("Request", "server method path headers")


class Hub:
    def __init__(self):
        self.repositories = {}
        self.faults = Faults()
        self.requests = []
        self.lock = threading.Lock()
        self.servers = [self.listen(HubHandler), self.listen(ContentHandler)]
        self.endpoint, self.content = (f"http://127.0.0.1:{one.server_address[1]}" for one in self.servers)

    def listen(self, handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.hub = self
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def of(self, server, method="GET"):
        return [one for one in self.requests if one.server == server and one.method == method]

    def downloads(self, name):
        """Requests for the bytes of a file, where they come from."""
        where = "content" if name.endswith(LARGE) else "hub"
        wanted = "/content/" if where == "content" else "/api/resolve-cache/"
        return [one for one in self.of(where) if one.path.startswith(wanted) and one.path.endswith(f"{COMMIT}/{name}")]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_name = ""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer()

    def do_HEAD(self):
        self.answer()

    @property
    def hub(self):
        return self.server.hub

    def answer(self):
        path = urllib.parse.urlsplit(self.path).path
        with self.hub.lock:
            self.hub.requests.append(Request(self.server_name, self.command, path, dict(self.headers)))
            if self.hub.faults.endless and path.endswith(self.hub.faults.endless):
                return self.say_endlessly()
            for end in list(self.hub.faults.status):
                if path.endswith(end):
                    fault = Faults.take(self.hub.faults.status, end)
                    if fault:
                        return self.say(fault[0], headers=fault[1])
        return self.serve(path)

    def say(self, status, text=b"", headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(text)

    def say_endlessly(self):
        self.send_response(500)
        self.send_header("Content-Length", str(2**40))
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(bytes(1 << 16))
        except ConnectionError:
            pass

    def send_file(self, name, content, headers):
        """The bytes of a file, or of a range of it, with the faults of that file."""
        faults = self.hub.faults
        content = faults.content.get(name, content)
        begin, status = 0, 200
        if faults.ranges and self.headers.get("Range"):
            begin, status = int(self.headers["Range"].removeprefix("bytes=").partition("-")[0]), 206
            headers = {**headers, "Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
            if begin >= len(content):
                return self.say(416)
        with self.hub.lock:
            cut = Faults.take(faults.cut, name) if self.command == "GET" else None
            stall = Faults.take(faults.stall, name) if self.command == "GET" else None
            if self.command == "GET" and name in faults.pieces:
                cut = begin + next(faults.pieces[name])
        body = content[begin:]
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), "Accept-Ranges": "bytes", **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        if stall:
            self.wfile.write(body[:1])
            self.wfile.flush()
            time.sleep(8)
            self.close_connection = True
            return None
        if cut is not None:
            self.wfile.write(body[:max(0, cut - begin)])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return None
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True
        return None


class HubHandler(Handler):
    server_name = "hub"

    def serve(self, path):
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["api", "models"]:
            return self.serve_api("/".join(parts[2:4]), parts[4:])
        if parts[:3] == ["api", "resolve-cache", "models"]:
            return self.serve_small("/".join(parts[3:5]), parts[5], "/".join(parts[6:]))
        if len(parts) > 4 and parts[2] == "resolve":
            return self.serve_file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        return self.say(404)

    def repository(self, name):
        """None: it was answered."""
        repository = self.hub.repositories.get(name)
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if given == "hf_wrong":
            self.say(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
        elif repository is None or (repository.token and not repository.gated and given != repository.token):
            # To whom it does not know, the hub does not say which it is.
            self.say(404 if given else 401, headers={"X-Error-Code": "RepoNotFound"})
        elif repository.renamed:
            self.say(307, headers={"Location": self.path.replace(name, repository.renamed)})
        else:
            return repository
        return None

    def opened(self, repository):
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if repository.gated and given != repository.token:
            self.say(403 if given else 401, headers={"X-Error-Code": "GatedRepo"})
            return False
        return True

    def serve_api(self, name, rest):
        repository = self.repository(name)
        if repository is None:
            return None
        if rest == ["refs"]:
            refs = {"branches": [{"name": one} for one in repository.revisions], "tags": []}
            return self.say(200, json.dumps(refs).encode())
        if rest[:1] == ["tree"]:
            return self.serve_tree(repository)
        revision = "/".join(rest[1:]) if rest[:1] == ["revision"] else "main"
        commit = repository.revisions.get(revision, revision)
        if commit != repository.commit:
            return self.say(404, headers={"X-Error-Code": "RevisionNotFound"})
        listed = {"id": name, "sha": commit, "siblings": [{"rfilename": one} for one in repository.files]}
        return self.say(200, json.dumps(listed).encode())

    def serve_tree(self, repository):
        listed = []
        for name, content in repository.files.items():
            entry = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
            if name.endswith(LARGE):
                entry["lfs"] = {"oid": etag_of(name, content), "size": len(content), "pointerSize": 130}
            listed.append(entry)
        return self.say(200, json.dumps(listed).encode(), {"Content-Type": "application/json"})

    def serve_file(self, name, revision, file):
        repository = self.repository(name)
        if repository is None or not self.opened(repository):
            return None
        commit = repository.revisions.get(revision, revision)
        known = {"X-Repo-Commit": commit}
        if commit != repository.commit:
            return self.say(404, headers={"X-Error-Code": "RevisionNotFound"})
        if file not in repository.files:
            return self.say(404, headers={**known, "X-Error-Code": "EntryNotFound"})
        if not file.endswith(LARGE):
            where = f"/api/resolve-cache/models/{name}/{commit}/{file}"
            return self.say(307, headers={**known, "Location": where})
        content = repository.files[file]
        return self.say(302, headers={
            **known, "X-Linked-Etag": f'"{etag_of(file, content)}"',
            "X-Linked-Size": str(self.hub.faults.size.get(file, len(content))),
            "Location": f"{self.hub.content}/content/{name}/{commit}/{file}?signature=x"})

    def serve_small(self, name, commit, file):
        repository = self.repository(name)
        if repository is None or not self.opened(repository):
            return None
        content = repository.files[file]
        return self.send_file(file, content, {"X-Repo-Commit": commit, "ETag": f'"{etag_of(file, content)}"'})


class ContentHandler(Handler):
    server_name = "content"

    def serve(self, path):
        _, owner, name, _, file = path.strip("/").split("/", 4)
        content = self.hub.repositories[f"{owner}/{name}"].files[file]
        return self.send_file(file, content, {"ETag": '"of the content network"'})
