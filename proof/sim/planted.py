"""Bugs that the simulation must find: each a small change to production code, by text or by function.

They are planted into the modules as these are imported, in a process of its own, and never into files.
If the text that a bug replaces is no longer there exactly once, or the function is gone or takes other
arguments, that is an error which names the bug: the code has moved on, and the bug has to move with it.
This module must not import `onefold` at its top (see `Swap`).
"""

from __future__ import annotations

from msgspec.structs import replace

from proof.sim.bug import Bug, Edit, bug, swapped
from proof.sim.planted_workers import WORKERS

CLAIMS = "onefold.core.claims"
ENTRY = "onefold.core.entry"
LINE = "onefold.core.line"
MEMORY = "onefold.stores.memory"
PROTOCOL = "onefold.core.protocol"
SIGHTINGS = "onefold.core.sightings"


LEDGERS: tuple[Bug, ...] = (
    bug(
        "fence-not-bumped-on-take-over",
        "Whoever takes over goes on with the fence of the holder before.",
        CLAIMS,
        "    held = _held(bid, counted, begun, prior)\n",
        "    held = replace(_held(bid, counted, begun, prior), fence=prior.fence if prior else 0)\n",
    ),
    bug(
        "fence-bumped-on-replay",
        "A renewal repeats the claim and takes a new fence, so that the holder's own effect looks stale.",
        CLAIMS,
        "    return Change(hold.key, entry.version, entry)\n",
        "    return Change(hold.key, entry.version, replace(entry, fence=0))\n",
    ),
    bug(
        # The version is what a settle is compared with here; the fence goes to sinks.
        "complete-ignores-fence",
        "The store writes done whatever version it finds.",
        MEMORY,
        "        if (stored[1].version if stored else None) != change.expected:\n",
        "        if (stored[1].version if stored else None) != change.expected and (\n"
        '            change.entry is None or change.entry.state != "done"\n'
        "        ):\n",
    ),
    bug(
        "complete-ignores-owner",
        "A holder settles what carries another's token.",
        CLAIMS,
        '    if entry is None or entry.token != hold.token or entry.state == "free":\n',
        '    if entry is None or entry.state == "free":\n',
    ),
    bug(
        "lease-compared-with-the-wrong-sign",
        "A claim is taken over while its lease runs, and left alone when it is over.",
        CLAIMS,
        '        case "held" if seen.stood < entry.lease:\n',
        '        case "held" if seen.stood > entry.lease:\n',
    ),
    bug(
        # The simulated processes count their monotonic time from a wrong wall clock.
        "lease-from-client-wall-clock",
        "How long a claim has stood is told by the contender's clock instead of the store's.",
        SIGHTINGS,
        "        return Seen(reply.entry, max(reply.idle, now - since + reply.skew), reply.skew)\n",
        "        return Seen(reply.entry, max(reply.idle, now - reply.entry.written))\n",
    ),
    bug(
        "deadline-from-reply-time",
        "A lease counts from when its holder heard of it, not from before it asked.",
        PROTOCOL,
        "                answers[at] = _dated(verdict, reply, since, sent_at)\n",
        "                heard = await now()\n"
        "                answers[at] = _dated(verdict, reply, heard, heard)\n",
    ),
    bug(
        "unknown-mapped-to-busy",
        "Whoever hears nothing takes the key for somebody else's.",
        PROTOCOL,
        '    answers = [Answer("unknown")] * len(sent)\n',
        '    answers = [Answer("busy")] * len(sent)\n',
    ),
    bug(
        "unknown-mapped-to-won",
        "Whoever hears nothing takes the key for its own.",
        PROTOCOL,
        '    answers = [Answer("unknown")] * len(sent)\n',
        '    answers = [Answer("won")] * len(sent)\n',
    ),
    bug(
        "token-regenerated-on-retry",
        "A claim that went unanswered is sent again under another token, and cannot know its own write.",
        PROTOCOL,
        "                again.append(at)\n                unsure = True\n",
        "                again.append(at)\n                unsure = True\n"
        '                other = claims.replace(sent[at].entry, token="again")\n'
        "                sent[at] = claims.replace(sent[at], entry=other)\n",
    ),
    bug(
        "token-shared-by-two-keys",
        "A batch is claimed under one token.",
        PROTOCOL,
        "    first = [claims.first(bid) for bid in bids]\n",
        "    first = [claims.first(claims.replace(bid, token=bids[0].token)) for bid in bids]\n",
    ),
    Bug(
        # Three guards stand in the way: held entries never get an expiry, only done ones count as expired,
        # and a purge asks for done ones only.
        "claimed-row-swept-by-ttl",
        "A held entry expires and is swept away, with whoever holds it.",
        (
            Edit(
                CLAIMS,
                '    keep = bid.terms.keep if bid.effect == "joined" else None\n',
                "    keep = bid.terms.keep\n",
            ),
            Edit(
                ENTRY,
                '    return entry.state == "done" and entry.expires is not None and entry.expires <= now\n',
                "    return entry.expires is not None and entry.expires <= now\n",
            ),
            Edit(
                PROTOCOL,
                '    found, after = await scan(scope, ("done",), False, after, page)\n',
                '    found, after = await scan(scope, ("done", "held"), False, after, page)\n',
            ),
        ),
    ),
    bug(
        "fence-restarts-at-1",
        "A new entry counts its versions from 1, also after a purge.",
        MEMORY,
        "        version = int(now * 1_000_000) if change.expected is None else change.expected + 1\n",
        "        version = 1 if change.expected is None else change.expected + 1\n",
    ),
    bug(
        "batch-zipped-in-the-wrong-order",
        "The replies to a batch are read in the order asked, though it was sent sorted.",
        PROTOCOL,
        "        for at, reply in zip(asked, replies, strict=True):\n",
        "        for at, reply in zip(sorted(asked), replies, strict=True):\n",
    ),
    bug(
        "duplicate-key-in-a-batch",
        "A key that stands twice in a batch is not refused.",
        PROTOCOL,
        "    if len(bids) > 1 and len({bid.key.id for bid in bids}) != len(bids):\n",
        "    if len(bids) > 1 and len({bid.key.id for bid in bids}) > len(bids):\n",
    ),
    bug(
        "retry-after-fenced",
        "A holder that was fenced off goes on with the version of whoever took over.",
        CLAIMS,
        "    if entry is None or entry.token != hold.token:\n",
        "    if entry is None:\n",
    ),
    bug(
        "abandon-without-fence",
        "The store writes free whatever version it finds.",
        MEMORY,
        "        if (stored[1].version if stored else None) != change.expected:\n",
        "        if (stored[1].version if stored else None) != change.expected and (\n"
        '            change.entry is None or change.entry.state != "free"\n'
        "        ):\n",
    ),
    bug(
        "renewal-after-deadline",
        "A claim whose lease ran out and that was parked is brought back to life by its late renewal.",
        CLAIMS,
        '        return Answer("parked" if entry.state == "parked" else "lost", entry)\n',
        '        return Change(hold.key, entry.version, replace(entry, state="held", why=None)) '
        'if entry.state == "parked" else Answer("lost", entry)\n',
    ),
    bug(
        "half-a-batch-acknowledged",
        "What the store said of one ending is taken for what it said of all.",
        PROTOCOL,
        "                answers[at] = _dated(verdict, reply, since, sent_at)\n",
        "                answers = [_dated(verdict, reply, since, sent_at) for _ in sent]\n",
    ),
    swapped(
        "effect-started-after-stop-by",
        "An effect may start up to the end of its lease and beyond, without a margin.",
        PROTOCOL,
        "stop_by",
        lambda original, since, terms: original(since, terms) + 2 * terms.margin,
    ),
    bug(
        "cancellation-swallowed",
        "A claim that is cancelled gives everything back and answers as if nothing were.",
        PROTOCOL,
        "    except BaseException:\n        await give_back(bids)\n        raise\n",
        "    except BaseException:\n        await give_back(bids)\n"
        '        return [Answer("busy") for _ in bids]\n',
    ),
    bug(
        "in-doubt-auto-retried",
        "A one-shot effect that a dead holder had begun is run again.",
        CLAIMS,
        '    return strictest == "one-shot"\n',
        "    return False\n",
    ),
    # Beyond the list: mistakes that this design invites, most of them made once and found by the simulation.
    bug(
        "renewal-taken-for-begun",
        "A heartbeat of the same holder is taken for the write of begun.",
        PROTOCOL,
        "    return (entry.begun is not None) == begun and entry.body == wanted.body\n",
        "    return True\n",
    ),
    bug(
        "lease-from-another-flow",
        "A version that another flow of the holder wrote long ago is taken for written just now.",
        PROTOCOL,
        "    answer.since = since if sent_at - seen.idle > since else sent_at - seen.idle\n",
        "    answer.since = since\n",
    ),
    bug(
        "late-claim-not-given-back",
        "A claim that is cancelled while it renews its lease is kept until the lease is over.",
        PROTOCOL,
        "        except BaseException:\n            await give_back([bid])\n            raise\n",
        "        except BaseException:\n            raise\n",
    ),
    bug(
        "too-old-given-back",
        "Giving a claim back also frees what was parked because its record is older than the memory.",
        PROTOCOL,
        ' and seen.entry.why != "beyond-memory"\n',
        "\n",
    ),
    swapped(
        "window-looked-at-too-early",
        "Whether a keyed far side still remembers is decided at the claim and not at the start.",
        PROTOCOL,
        "_forgotten",
        lambda original, *args: False,
    ),
    bug(
        "doubt-settled-by-a-retry",
        "An operator's retry runs what may have happened, without anybody deciding about it.",
        CLAIMS,
        '    if entry.state != "parked" or entry.why in ("in-doubt", "beyond-memory"):\n',
        '    if entry.state != "parked":\n',
    ),
    bug(
        "old-holder-speaks-after-a-decision",
        "A person's decision leaves the old holder's token in place.",
        CLAIMS,
        "    freed = replace(_freed(entry, attempt), token=token, begun=None, not_before=None)\n",
        "    freed = replace(_freed(entry, attempt), begun=None, not_before=None)\n",
    ),
    swapped(
        "skew-ignored-in-a-lease",
        "Where clocks are apart, a contender whose clock is ahead takes over too early.",
        ENTRY,
        "Seen.stood",
        lambda original, seen: seen.idle,
    ),
    bug(
        "skew-ignored-in-a-memory",
        "Where clocks are apart, what is done is forgotten too early by a clock that is ahead.",
        CLAIMS,
        "    if expired(entry, now - seen.skew) and not _still_proves(bid, seen.idle):\n",
        "    if expired(entry, now) and not _still_proves(bid, seen.idle):\n",
    ),
    swapped(
        "skew-ignored-in-a-purge",
        "Where clocks are apart, a purge by a clock that is ahead removes what is still remembered.",
        CLAIMS,
        "forgotten",
        lambda original, seen: original(replace(seen, skew=0.0)),
    ),
    bug(
        "contender-prolongs-a-lease",
        "A contender that finds the key held writes the entry anew, and the dead holder's lease with it.",
        CLAIMS,
        '            return Answer("busy", entry, wait=entry.lease - seen.stood)\n',
        "            return Change(bid.key, entry.version, entry)\n",
    ),
    bug(
        "done-not-remembered",
        "What is done is forgotten at once, and run again.",
        CLAIMS,
        '        case "done":\n            return Answer("done", entry)\n',
        '        case "done":\n            return first(bid, expected=entry.version)\n',
    ),
    bug(
        "list-forgets-what-was-done-before",
        "An entry that was done once is never shown among the open ones again.",
        MEMORY,
        "            self._open[id] = None\n",
        "            self._open.setdefault(id, None) if not stored else None\n",
    ),
    bug(
        "backoff-never-ends",
        "An entry that was freed waits for a time that never comes.",
        CLAIMS,
        '        case "free" if entry.not_before is not None and now < entry.not_before:\n',
        '        case "free" if entry.not_before is not None:\n',
    ),
    bug(
        "line-forgets-a-waiter",
        "When a merged call fails and its leader is cancelled, those behind it are never answered.",
        LINE,
        "                deliver([ask], ask.changes, [UNKNOWN] * len(ask.changes))\n",
        "                pass\n",
    ),
    bug(
        "unsettled-reported-as-settled",
        "An ending that was never written is reported as written.",
        PROTOCOL,
        "        if _written(change, seen.entry, hold.token):\n",
        "        if seen.entry and seen.entry.token == hold.token:\n",
    ),
    # The first swap of a single call is judged without a flow: its own mistakes must show, too.
    bug(
        "late-win-started-without-a-flow",
        "A single call that won too late to start by its lease starts its effect nevertheless.",
        PROTOCOL,
        '    startable = verdict.state == "won" and now < stop_by(since, bid.terms)\n',
        '    startable = verdict.state == "won"\n',
    ),
    bug(
        "first-ending-believed-without-a-flow",
        "A single ending counts as written whatever the store replied.",
        PROTOCOL,
        "    if reply is UNKNOWN or not _written(change, reply.entry, hold.token):\n",
        "    if reply is UNKNOWN:\n",
    ),
    bug(
        "attempts-not-counted",
        "The attempts of a key start anew with every claim.",
        CLAIMS,
        "    return _take(bid, entry.version, entry.attempt, entry)\n",
        "    return _take(bid, entry.version, 0, entry)\n",
    ),
)

BUGS = LEDGERS + WORKERS


def named(name: str) -> Bug:
    """Find a bug by its name."""
    for one in BUGS:
        if one.name == name:
            return one
    raise LookupError(f"there is no planted bug {name!r}: --list names them")
