"""A chromium without a window, told what to do by its debugging protocol over a pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from served import services

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. A context manager."""

    def __init__(self, width=900, height=700):
        # chromium's other processes may write a little longer than the first one lives.
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-chromium.", ignore_cleanup_errors=True)
        asked, self.asks = os.pipe()
        self.answers, answered = os.pipe()

        # chromium reads from 3 and writes to 4.
        self.process = subprocess.Popen(
            services.ends_with_parent(
                ["bash", "-c", f'exec "$0" "$@" 3<&{asked} 4>&{answered}', PROGRAM, "--headless=new", "--no-sandbox",
                 "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.folder.name}",
                 f"--window-size={width},{height}", "--remote-debugging-pipe"]),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(asked, answered))
        for side in (asked, answered):
            os.close(side)
        self.received = b""
        self.number = 0
        self.session = None
        self.events = []  # what the page logged, and what it was not allowed to load
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for side in (self.asks, self.answers):
            os.close(side)
        self.folder.cleanup()

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.asks, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + services.PATIENCE
        while time.monotonic() < deadline:
            answer = self._read(deadline - time.monotonic())
            if answer and answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
        raise AssertionError(f"{method}: no answer")

    def _read(self, patience):
        while b"\0" not in self.received:
            if not select.select([self.answers], [], [], patience)[0]:
                return None
            more = os.read(self.answers, 65536)
            assert more, "chromium has ended"
            self.received += more
        text, _, self.received = self.received.partition(b"\0")
        message = json.loads(text)
        if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled",
                                     "Network.requestWillBeSent"):
            self.events.append(message)
        return message

    def open(self, url):
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression):
        """The value of the expression, once it is true."""
        deadline = time.monotonic() + services.PATIENCE
        while not (value := self.run(expression)):
            assert time.monotonic() < deadline, f"{expression} is {value}"
            time.sleep(0.05)
        return value

    def type(self, selector, text):
        """As a user does, and Enter at the end."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.ask("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")

    def picture(self):
        """PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def hosts(self):
        """All that the page asked anything of."""
        urls = [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]
        return {url.split("/")[2] for url in urls if url.startswith("http")}

    def complaints(self):
        return [event for event in self.events if event["method"] != "Network.requestWillBeSent"]
