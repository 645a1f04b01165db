"""A headless Chromium, driven over a pipe by the DevTools protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

PATIENCE = 60.0
"""Seconds that an answer may take on a busy machine."""


def find_chromium():
    """The browser's path, None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One browser with one page; `events` holds all that the page reported."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory()
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [find_chromium(), *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._buffer, self.events, self._session = count(1), b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._write)  # the browser leaves when its pipe closes
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        self._profile.cleanup()

    def call(self, method, **parameters):
        """Ask, and wait for the answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(PATIENCE)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _next(self, patience):
        end = time.monotonic() + patience
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            part = os.read(self._read, 1 << 20)
            if not part:
                raise ConnectionError("the browser has gone")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, *, width=1100, height=900, dark=False, script=True):
        """Load a file, and forget what earlier pages reported."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self._wait_for("Page.loadEventFired")

    def _wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next(PATIENCE))

    def run(self, expression):
        """The value of a JavaScript expression; of a promise, what it is kept with."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def key(self, name):
        """Press a key."""
        text = {"Enter": "\r", "Space": " "}.get(name)
        named = {"key": " " if name == "Space" else name, "code": name}
        codes = {"Tab": 9, "Enter": 13, "Space": 32, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        named["windowsVirtualKeyCode"] = codes[name]
        if text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        else:
            self.call("Input.dispatchKeyEvent", type="rawKeyDown", **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def hover(self, x, y):
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        """Press and release the mouse."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path, *, whole=True):
        """A picture of the page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path):
        """The page as it is printed."""
        answer = self.call("Page.printToPDF", printBackground=True)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def complaints(self):
        """Errors and warnings of the console, and exceptions."""
        self.run("0")  # what happened before has been reported by now
        found = []
        for event in self.events:
            method, said = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(said["exceptionDetails"])
            elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(said["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
                found.append(said["args"])
        return found

    def requests(self):
        """Addresses that the page asked for."""
        self.run("0")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
