"""The devices' clocks while a step runs: a device at its power limit is slower, whoever uses it."""

import subprocess
import threading
from statistics import median

EVERY_MS = 100
BUSY_WATTS = 200  # above what a device draws that only holds contexts
POWER_CAP = 0x4  # nvml.h, nvmlClocksEventReasonSwPowerCap


class Clocks:
    """summary, after the with block: samples of busy devices, the SM clock's median and mean in MHz, the share of them at the power limit, watts.
    None where nothing can be read."""

    def __init__(self, launcher):
        self.devices = [] if launcher.options.soft else launcher.devices
        self.summary = None

    def __enter__(self):
        self.lines, self.process = [], None
        if not self.devices:
            return self
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=clocks.sm,power.draw.instant,clocks_event_reasons.active", "--format=csv,noheader,nounits",
                 "-i", ",".join(self.devices), "-lms", str(EVERY_MS)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return self
        self.thread = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        if not self.process:
            return
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.thread.join(5)
        self.summary = summary(list(self.lines))


def summary(lines):
    busy = []
    for line in lines:
        try:
            clock, watts, reasons = line.split(",")
            sample = (int(clock), float(watts), int(reasons, 16))
        except ValueError:
            continue
        if sample[1] >= BUSY_WATTS:
            busy.append(sample)
    if not busy:
        return None
    return {"samples": len(busy), "sm_mhz_median": median(c for c, _, _ in busy), "sm_mhz_mean": sum(c for c, _, _ in busy) / len(busy),
            "power_capped": sum(1 for _, _, r in busy if r & POWER_CAP) / len(busy), "watts_mean": sum(w for _, w, _ in busy) / len(busy)}
