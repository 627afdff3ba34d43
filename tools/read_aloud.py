"""What a screen reader says of a page of the board: Orca in front of Chromium, with keys typed one after the other.

python tools/read_aloud.py /estimate Tab Tab Tab Right wait
python tools/read_aloud.py /book/2 h h Down Down

Keys are xdotool's; `wait` waits three seconds, `type:TEXT` types. Orca, Chromium, Xvfb, openbox, xdotool, at-spi2-core,
speech-dispatcher and dbus have to be installed, as Debian's packages of these names. Nothing is played: a line is
printed for every key and for everything that would be spoken.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

SILENT = {
    "speechd.conf": 'LogLevel 1\nAddModule "silent" "sd_generic" "silent.conf"\nDefaultModule silent\n',
    "modules/silent.conf": 'GenericExecuteSynth "true"\nGenericCmdDependency "true"\nAddVoice "en" "MALE1" "silent"\n',
}
"""A synthesiser that says nothing; without one Orca waits for sound."""
SPOKEN = re.compile(r"^(\d\d:\d\d:\d\d\.\d+) - SPEECH OUTPUT: '(.*?)'(?:\s*\{.*)?$")
ENABLE = (
    "gdbus call --session --dest org.a11y.Bus --object-path /org/a11y/bus "
    "--method org.freedesktop.DBus.Properties.Set org.a11y.Status"
)
SCREEN = ":99"


def main() -> None:
    """Print keys and speech in their order."""
    if "DBUS_SESSION_BUS_ADDRESS" not in os.environ:
        sys.exit(subprocess.call(["dbus-run-session", "--", sys.executable, *sys.argv]))
    path, *keys = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for time_of_day, text in sorted(heard(path, keys, Path(folder))):
            print(time_of_day, text)


def heard(path: str, keys: list[str], home: Path) -> list[tuple[str, str]]:
    """Times of day with what was typed, and with what was said."""
    for name, text in SILENT.items():
        file = home / ".config/speech-dispatcher" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    os.environ |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "DISPLAY": SCREEN}
    log, typed = home / "orca.log", []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}{path}"
    browser = f"chromium --no-sandbox --force-renderer-accessibility --no-first-run --user-data-dir={home / 'browser'}"
    launched = []
    try:
        for command, seconds in (
            (f"{sys.executable} -m rackmath board --port {port}", 6),
            (f"Xvfb {SCREEN} -screen 0 1280x900x24", 2),
            ("openbox", 1),
            ("/usr/libexec/at-spi-bus-launcher --launch-immediately", 2),
            (f"{ENABLE} IsEnabled <true>", 1),
            (f"{ENABLE} ScreenReaderEnabled <true>", 1),
            (f"orca --debug-file={log}", 4),
            (f"{browser} --window-size=1280,900 --window-position=0,0 {address}", 18),
            # The heading of the page: keys go to it and not to the browser.
            ("xdotool mousemove 500 370 click 1", 1),
        ):
            launched.append(subprocess.Popen(command.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(seconds)
        for key in keys:
            typed.append((datetime.now().time().isoformat(), f"  [{key}]"))
            if key != "wait":
                word = ["type", key[5:]] if key.startswith("type:") else ["key", key]
                subprocess.run(["xdotool", *word], check=True)
            time.sleep(3 if key == "wait" else 0.8)
    finally:
        for process in reversed(launched):
            process.terminate()
        for process in launched:
            process.wait()
    lines = (SPOKEN.match(line) for line in log.read_text(encoding="utf-8", errors="replace").splitlines())
    return [*typed, *((m.group(1), m.group(2)) for m in lines if m)]


if __name__ == "__main__":
    main()
