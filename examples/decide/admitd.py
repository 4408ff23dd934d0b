"""Asks admitd before work and reports after it. Standard library only, Python 3.8.

    gate = Gate("http://127.0.0.1:9463")
    with gate.permit("jobs", partition="nightly"):
        work()

An exception ends the permit as dropped. Where the gate refuses, Refused says why
and when to come again (retry_after, in seconds, None = never); where it cannot be
reached, OSError is raised, and whether work goes on is yours to choose.
"""
import contextlib
import http.client
import json
import urllib.parse


class Refused(Exception):
    """The gate refused. document is what every client of a gate is told."""

    def __init__(self, document):
        super().__init__(f"{document.get('detail')}: {document.get('reason')} of {document.get('ingress')}")
        self.document = document
        self.reason = document.get("reason")
        retryable = "RetryableError" in document.get("errorLabels", ())
        self.retry_after = max(document.get("retryAfterMS", 1000), 1) / 1000 if retryable else None


class Gate:
    """A decisions listener. It may be used from many threads."""

    def __init__(self, url, token=None, timeout=30.0):
        parts = urllib.parse.urlsplit(url)
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._address, self._token, self._timeout = parts.netloc, token, timeout

    def admit(self, ingress, ttl=10.0, patience=None, **facts):
        """Asks for a permit and returns its id. facts are partition, operation, class_ and cost;
        patience is for how many seconds it may wait in the gate's queue."""
        body = {"ingress": ingress, "ttlMS": int(ttl * 1000)}
        body.update({key.rstrip("_"): value for key, value in facts.items() if value is not None})
        headers = {} if patience is None else {"X-Admitd-Deadline-Ms": str(max(int(patience * 1000), 1))}
        answer = self._call("POST", "/v1/admissions", body, headers)
        permit = answer.get("permit") if isinstance(answer, dict) else None
        if not isinstance(permit, str) or not permit:
            raise OSError("admitd: the answer holds no permit")
        return permit

    def end(self, permit, outcome="success"):
        """Returns a permit: success, ignored or dropped. One that has expired is no error."""
        self._call("DELETE", f"/v1/admissions/{urllib.parse.quote(permit, safe='')}?outcome={outcome}", None, {}, (404,))

    @contextlib.contextmanager
    def permit(self, ingress, **asked):
        """Holds a permit while the block runs."""
        permit, outcome = self.admit(ingress, **asked), "dropped"
        try:
            yield permit
            outcome = "success"
        finally:
            with contextlib.suppress(OSError):  # it expires
                self.end(permit, outcome)

    def _call(self, method, path, body, headers, fine=()):
        headers = {"Content-Type": "application/json", **headers}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect(self._address, timeout=self._timeout)
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read(65536)
        except http.client.HTTPException as problem:
            raise OSError(f"admitd: {problem!r}") from problem
        finally:
            connection.close()
        if answer.status < 300 or answer.status in fine:
            return json.loads(text) if answer.status < 300 and text else {}
        with contextlib.suppress(ValueError):
            document = json.loads(text)
            if document.get("code") == 462:
                raise Refused(document)
        raise OSError(f"admitd: {method} {path}: {answer.status} {text[:200]!r}")
