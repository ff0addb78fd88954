"""A real browser for tests: Chromium without a window, spoken to over two pipes in its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(
        None,
        map(
            shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        ),
    ),
    None,
)
_SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One tab. Whatever the page complains about is kept in `complaints`, whatever it asks for in `requests`."""

    def __init__(self, timeout: float = 60.0) -> None:
        assert CHROMIUM is not None
        self.timeout, self.complaints, self.requests = timeout, [], []
        self._count, self._rest = 0, b""
        self._profile = tempfile.mkdtemp(prefix="pccl-browser-")
        (hear_command, self._commands), (self._answers, speak) = os.pipe(), os.pipe()
        self._process = _launch(hear_command, speak, f"--user-data-dir={self._profile}")
        os.close(hear_command)
        os.close(speak)
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._commands)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def open(self, path: Path) -> None:
        """Open a page from a file and wait until its scripts have set it up."""
        self.complaints.clear()
        self.requests.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && document.body.dataset.ready === 'yes'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + self.timeout
        while not self.run(condition):
            assert time.monotonic() < end, (
                f"{condition} did not come true; complaints: {self.complaints}"
            )
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until what has changed is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, key: str, code: str = "", text: str = "") -> None:
        """Press a key where the focus is."""
        names = {"key": key, "code": code or key, "windowsVirtualKeyCode": _KEYS.get(key, 0)}
        self.send(
            "Input.dispatchKeyEvent", type="keyDown", **names, **({"text": text} if text else {})
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **names)

    def move(self, x: float, y: float, kind: str = "mouseMoved", **more: Any) -> None:
        """Move the pointer to a place of the window, or press and release there."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """Give the window another size."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )  # fmt: skip

    def prefer(self, **features: str) -> None:
        """Set what the user prefers: ``prefer(color_scheme="dark")``."""
        listed = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.send("Emulation.setEmulatedMedia", features=listed)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save what the page looks like."""
        data = self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], self.timeout)
            data = os.read(self._answers, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        event = json.loads(message)
        self._note(event.get("method"), event.get("params", {}))
        return event

    def _note(self, method: str | None, about: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and about["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append([argument.get("value") for argument in about["args"]])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])


_KEYS = {
    " ": 32,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Tab": 9,
    "Enter": 13,
    "Home": 36,
}


def _launch(hear: int, speak: int, profile: str) -> subprocess.Popen[bytes]:
    """Start Chromium, which hears commands at descriptor 3 and answers at 4."""
    shell = f'exec 3<&{hear} 4>&{speak}; exec "$0" "$@"'
    return subprocess.Popen(
        ["/bin/bash", "-c", shell, CHROMIUM, *_SWITCHES, profile, "about:blank"],
        pass_fds=(hear, speak), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
