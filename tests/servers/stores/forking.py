"""Forks children while threads write through the same ledger; each child must be able to claim a key.

Run as a process of its own, `python -m tests.servers.stores.forking URL CHILDREN`: no other threads may run
than these. A child that hangs prints its stack and ends. Exit code 0 says that all of them finished.
"""

import faulthandler
import os
import sys
import threading
from collections import Counter
from itertools import count

from onefold import Key, Ledger

THREADS = 4
AT_ONCE = 8
SECONDS = 100


def main(url: str, children: int) -> int:
    ledger = Ledger(url)
    ledger.look(Key("orders", 0))  # what is imported at first use is imported now
    stop = threading.Event()
    failed: list[str] = []
    threads = [threading.Thread(target=write, args=(ledger, url, n, stop, failed)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    ended = fork_all(ledger, children)
    stop.set()
    for thread in threads:
        thread.join()
    works = ledger.call(Key("parent", "after"), lambda: None).state == "ran"
    ledger.close()
    print(f"children {dict(ended)}, threads failed {failed}, the parent's ledger works: {works}")
    return 0 if ended == {0: children} and not failed and works else 1


def write(ledger: Ledger, url: str, number: int, stop: threading.Event, failed: list[str]) -> None:
    """Claim one key after another; now and then on a connection that is opened for it."""
    try:
        for n in count():
            if stop.is_set():
                return
            ledger.call(Key("thread", number, n), lambda: None)
            if n % 20 == number:
                other = Ledger(url)
                other.call(Key("thread", number, n, "other"), lambda: None)
                other.close()
    except BaseException as error:
        failed.append(repr(error))


def fork_all(ledger: Ledger, children: int) -> Counter[int]:
    """Fork children, a few at a time, and count how they ended."""
    ended: Counter[int] = Counter()
    alive: list[int] = []
    for number in range(children):
        pid = os.fork()
        if pid == 0:
            be_child(ledger, number)
        alive.append(pid)
        if len(alive) == AT_ONCE:
            ended[os.waitstatus_to_exitcode(os.waitpid(alive.pop(0), 0)[1])] += 1
    for pid in alive:
        ended[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])] += 1
    return ended


def be_child(ledger: Ledger, number: int) -> None:
    status = 1
    try:
        faulthandler.dump_traceback_later(SECONDS, exit=True)  # by a thread of C, whoever holds the GIL
        told = ledger.call(Key("child", number), lambda: None)
        ledger.close()  # its own connection, and not the parent's
        status = 0 if told.state == "ran" else 2
    except BaseException as error:
        print(f"child {number}: {error!r}", flush=True)
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
