"""The fuzzer at length: ``python tests/fuzz/run.py --calls 100000 --minutes 10``.

Cases run in processes of their own, with a limit of memory, so that a crash of the interpreter is
found too. Every run has cases of its own, from a number that is printed; every case that fails is
printed with its number, which repeats it: ``--first NUMBER --calls 1``.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHUNK = 500
MEMORY = 6_000_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=0, help="random calls of the library")
    parser.add_argument("--minutes", type=float, default=0, help="time for random bytes")
    parser.add_argument("--first", type=int, help="the number of the first case; random")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk", nargs=3, metavar=("KIND", "FIRST", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.chunk:
        kind, first, n = options.chunk
        return run_chunk(kind, int(first), int(n))
    if options.first is None:
        options.first = random.SystemRandom().randrange(10**9)
    print(f"The first case is {options.first}.")
    total: Counter[str] = Counter()
    with ThreadPoolExecutor(options.workers) as pool:
        starts = range(options.first, options.first + options.calls, CHUNK)
        last = options.first + options.calls
        for said in pool.map(lambda a: in_process("calls", a, min(CHUNK, last - a)), starts):
            total += said
            print(f"\rcalls: {dict(total)}", end="", file=sys.stderr)
    if options.minutes:
        total += fuzz_bytes(options.first, options.minutes, options.workers)
    print(f"\n{dict(total)}")
    return 1 if total["failed"] or total["crashed"] else 0


def fuzz_bytes(first, minutes, workers):
    """Chunks of every kind of bytes until the time is over."""
    import blobs

    total, end = Counter(), time.monotonic() + 60 * minutes

    def work(worker):
        own, start = Counter(), first + worker * CHUNK
        while time.monotonic() < end:
            for kind in blobs.KINDS:
                own += in_process(kind, start, CHUNK)
            start += workers * CHUNK
        return own

    with ThreadPoolExecutor(workers) as pool:
        for said in pool.map(work, range(workers)):
            total += said
    return total


def in_process(kind, first, n):
    """Cases in a process of their own."""
    command = [sys.executable, "-W", "error", __file__, "--chunk", kind, str(first), str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        print(f"\n{kind} from {first} on: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return Counter(crashed=1)
    *failures, counts = done.stdout.splitlines()
    if failures:
        print("\n" + "\n".join(failures))
    return Counter(dict(zip(("answered", "refused", "failed"), map(int, counts.split()))))


def run_chunk(kind, first, n):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import blobs
    import calls

    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + n):
            try:
                if kind == "calls":
                    said[calls.check(number)] += 1
                else:
                    said[blobs.check(kind, number, Path(folder))] += 1
            except Exception as error:
                said["failed"] += 1
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                text = " | ".join(lines)[:3000]
                print(f"{kind} {number}: {type(error).__name__} at {place}: {text}")
    print(said["answered"], said["refused"], said["failed"])
    return 1 if said["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
