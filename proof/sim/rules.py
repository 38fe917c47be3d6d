"""What must hold at every single write, start and answer of a history, judged as it happens.

These are the rules of safety in words of their own: nothing of `core.claims` is asked what is right, or a
mistake there would be judged by itself. True time is known here, and to nobody who is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onefold.core.claims import Answer
from onefold.core.entry import Change, Entry
from onefold.core.errors import Misconfigured, Unreachable
from proof.sim.subject import Attempt, Op, Subject, Write

if TYPE_CHECKING:
    from proof.sim.process import Task
    from proof.sim.world import World

TINY = 1e-4
"""Seconds by which a reading of a clock may be off after some additions."""


_MAY_WRITE = {
    "renew": ("held",),
    "begin": ("held",),
    "returned": ("done",),
    "parked": ("parked",),
    "refused": ("free", "parked"),
    "raised": ("free", "parked"),
}
"""What the questions of a holder may leave, by their kind or by how the attempt ended."""


def keeps_contract(world: World, changes: Sequence[Change]) -> None:
    """Hold what a store may rely upon: the keys of one call are distinct and sorted."""
    ids = [change.key.id for change in changes]
    if any(ids[at] >= ids[at + 1] for at in range(len(ids) - 1)):
        world.fail("contract", None, "a call on the store has keys twice, or out of order")


# ----- writes


def judge(world: World, subject: Subject, old: Entry | None, new: Entry | None, op: Op | None) -> None:
    """Judge one write by what stood before it, and by who asked for it."""
    if op is None:
        world.fail("contract", subject, "it was written by nobody who asked for it")
        return
    if new is None:
        _judge_removal(world, subject, old, op)
        return
    if old is None or old.state == "done" or op.kind in ("resolve", "retry"):
        subject.tries = 0
    _judge_token(world, subject, new)
    _judge_version(world, subject, old, new, op)
    if old is None or old.state == "free":
        _judge_free(world, subject, old, new, op)
    elif old.state == "held":
        _judge_held(world, subject, old, new, op)
    elif old.state == "parked":
        _judge_parked(world, subject, old, new, op)
    else:
        _judge_done(world, subject, old, new, op)


def _clock(world: World, subject: Subject, old: Entry) -> float:
    """Give the latest time it may have been taken for since the last write, with every jump of the clock.

    A clock that only stands in for the store's is nobody's excuse.
    """
    return old.written + world.now - subject.since + world.jumped_ahead - subject.ahead


def _judge_free(world: World, subject: Subject, old: Entry | None, new: Entry, op: Op) -> None:
    if op.kind not in ("claim", "note", "retry"):
        world.fail("register", subject, f"a {op.kind} wrote {new.state} over what nobody held")
    if old is None or old.not_before is None or op.kind != "claim":
        return
    # A back-off is no promise to anybody: it goes by the clock at hand.
    if max(world.clock(), _clock(world, subject, old)) < old.not_before - TINY:
        world.fail("leases", subject, "it was claimed before its back-off was over")


def _judge_removal(world: World, subject: Subject, old: Entry | None, op: Op) -> None:
    if old is None or old.state != "done" or op.kind != "purge" or not _is_over(world, subject, old):
        world.fail("memory", subject, f"a {old.state if old else 'missing'} entry was removed by a {op.kind}")


def _is_over(world: World, subject: Subject, old: Entry) -> bool:
    """Say whether what is done may be forgotten."""
    return old.expires is not None and _clock(world, subject, old) >= old.expires - TINY


def _judge_token(world: World, subject: Subject, new: Entry) -> None:
    made = world.made.get(new.token)
    if made is None:
        world.fail("tokens", subject, f"nobody made the token {new.token}")
    elif made[0] is not subject:
        world.fail("tokens", subject, f"the token {new.token} was made for {made[0]}")


def _judge_version(world: World, subject: Subject, old: Entry | None, new: Entry, op: Op) -> None:
    """Versions grow with every write; the fence is the version of the claim, and stays while it is held."""
    if old is not None and new.version != old.version + 1:
        world.fail("fences", subject, f"version {new.version} follows {old.version}")
    if _takes(old, new, op):
        # A clock that went back further than the memory lasts can no longer be told from a new one.
        excused = old is None and world.jumped_back > 0
        if new.fence <= subject.floor and not excused:
            world.fail("fences", subject, f"fence {new.fence} follows {subject.floor}")
    elif old is not None and new.fence != old.fence and op.kind != "note":
        world.fail("fences", subject, f"fence {new.fence} replaces {old.fence} within one attempt")
    subject.floor = max(subject.floor, new.fence)


def _takes(old: Entry | None, new: Entry, op: Op) -> bool:
    """Say whether a write gives the key to a new attempt."""
    if op.kind != "claim" or new.token != op.token or new.state == "free":
        return False
    if old is None or old.token != new.token:
        return True
    return old.state == "free" and new.state != "parked"


def _ends_joined(old: Entry | None, new: Entry) -> bool:
    return old is not None and old.state == "done" and old.token == new.token


def _judge_held(world: World, subject: Subject, old: Entry, new: Entry, op: Op) -> None:
    if op.token == old.token and new.token == old.token:
        if new.state not in _MAY_WRITE.get(op.ending or op.kind, ("free", "held", "parked")):
            world.fail("register", subject, f"a {op.kind} {op.ending} wrote {new.state} over what was held")
        return
    if op.kind != "claim" or new.state not in ("held", "parked"):
        world.fail("owners", subject, f"a {op.kind} of {op.token} wrote {new.state} over {old.token}")
    elif new.token == old.token and new.state == "held":
        world.fail("leases", subject, f"{op.token} prolonged the lease of {old.token}")
    elif _clock(world, subject, old) < old.written + old.lease - TINY:
        world.fail("leases", subject, f"{op.token} took it before the lease of {old.token} was over")
    elif new.state == "held" and old.begun is not None and old.effect == "one-shot":
        world.fail("doubt", subject, f"{op.token} took over what {old.token} had begun")


def _judge_parked(world: World, subject: Subject, old: Entry, new: Entry, op: Op) -> None:
    """What is parked moves by its holder's late word, by a person's, or by a probe's."""
    if op.kind in ("resolve", "probe", "retry"):
        if op.kind == "resolve" and new.state == "free":
            subject.words += 1
        if op.kind == "retry" and old.why in ("in-doubt", "beyond-memory"):
            world.fail("doubt", subject, "a retry decided what only a person who looked can")
        if new.token != op.token:
            world.fail("owners", subject, f"after a {op.kind} the old holder {old.token} may still speak")
    elif op.token != old.token or op.kind not in ("end", "claim", "ready"):
        world.fail("doubt", subject, f"a {op.kind} of {op.token} moved what waits for a decision")
    elif new.state == "held":
        world.fail("doubt", subject, f"a {op.kind} brought what was parked back to life")
    elif old.why == "beyond-memory":
        world.fail("memory", subject, f"a {op.kind} freed what is older than the memory")


def _judge_done(world: World, subject: Subject, old: Entry, new: Entry, op: Op) -> None:
    if _ends_joined(old, new) and op.kind == "end" and new.state == "done" and old.effect == "joined":
        return
    if op.kind != "claim" or not _is_over(world, subject, old):
        world.fail("memory", subject, f"a {op.kind} wrote {new.state} over what was done")


# ----- starts


def starts(world: World, attempt: Attempt) -> None:
    """Judge the start of an effect: somebody must hold the key under that token, and have begun."""
    subject, token = attempt.subject, attempt.token
    mine = [write.new for write in subject.writes if write.new is not None and write.new.token == token]
    if not any(entry.state in ("held", "done") for entry in mine):
        world.fail("starts", subject, f"an effect starts under {token}, which never held the key")
    elif subject.effect == "one-shot" and not any(entry.begun is not None for entry in mine):
        world.fail("starts", subject, f"an effect starts under {token} before begun was written")
    if attempt.started == attempt.ready:
        subject.tries += 1  # one that stood still in between may belong to an earlier count
    if subject.tries > subject.terms.attempts:
        world.fail("attempts", subject, f"effect number {subject.tries} of {subject.terms.attempts} starts")
    if any(other.token == token for other in subject.attempts):
        world.fail("starts", subject, f"a second effect starts under {token}")


# ----- answers


def answered(task: Task, op: Op, answer: Answer) -> None:
    """Judge an answer at the moment it is given."""
    world, subject = task.world, op.subject
    op.answer = answer
    if world.lines is not None:
        world.note(op.who, f"is told by {op.kind} of {subject} under {op.token}: {answer.state}")
    if op.cancelled:
        world.fail("cancelled", subject, f"a {op.kind} that was cancelled answered {answer.state}")
    if answer.state == "won":
        _judge_won(task, op, answer)
    elif op.kind == "claim" and _keeps(op):
        world.fail("losers", subject, f"{op.token} holds the key and was told {answer.state}")
    elif op.kind == "end":
        _judge_end(world, op, answer)


def _judge_won(task: Task, op: Op, answer: Answer) -> None:
    world, subject, entry = task.world, op.subject, answer.entry
    if entry is None:
        world.fail("answers", subject, f"a {op.kind} under {op.token} was won, and nothing was stored")
        return
    write = _write_of(subject, entry)
    if write is None or entry.token != op.token:
        world.fail("answers", subject, f"a {op.kind} under {op.token} was won by what was never stored")
        return
    if subject.effect == "joined" or (write.op is not op and world.jumped_back > 0):
        return  # how long ago another flow wrote it, only a clock that goes forward can tell
    if answer.since - task.process.offset > write.at + TINY:
        world.fail("ready", subject, f"the lease of {op.token} counts from after it was written")
    if _starts_at_once(op) and world.now >= write.at + entry.lease + TINY:
        world.fail("ready", subject, f"{op.token} may start after its lease is over")


def _starts_at_once(op: Op) -> bool:
    # A batch is asked about again, key by key, before each effect.
    return op.kind == "ready" or (op.kind == "claim" and not op.ending)


def _write_of(subject: Subject, entry: Entry) -> Write | None:
    for write in reversed(subject.writes):
        if write.new is not None and write.new.version == entry.version and write.new == entry:
            return write
    return None


def _judge_end(world: World, op: Op, answer: Answer) -> None:
    subject = op.subject
    wanted = _MAY_WRITE[op.ending]
    stored = any(
        write.new is not None and write.new.token == op.token and write.new.state in wanted
        for write in subject.writes
    )
    if answer.state == "settled" and not stored:
        world.fail("settled", subject, f"the end of {op.token} was reported as written and was not")
    if answer.state not in ("settled", "lost", "unknown"):
        world.fail("settled", subject, f"the end of {op.token} was answered {answer.state}")
    done = any(
        write.op is op and write.new is not None and write.new.state == "done" for write in subject.writes
    )
    if answer.state == "lost" and done and subject.terms.keep is None:
        world.fail("settled", subject, f"the end of {op.token} was written and reported as lost")


def ended_by_error(world: World, op: Op) -> None:
    """Judge how a question failed: the store may be down, or the caller may have gone."""
    error, subject = op.error, op.subject
    if world.lines is not None:
        world.note(op.who, f"{op.kind} of {subject} under {op.token} ends by {type(error).__name__}")
    if op.cancelled and isinstance(error, Exception) and not isinstance(error, Unreachable):
        world.fail("cancelled", subject, f"a {op.kind} that was cancelled raised {error!r}")
    if isinstance(error, Exception) and not isinstance(error, Unreachable | Misconfigured):
        world.fail("errors", subject, f"a {op.kind} raised {error!r}")
    if op.kind == "claim" and _keeps(op):
        world.fail("losers", subject, f"{op.token} holds the key though its claim ended by an error")


def _keeps(op: Op) -> bool:
    """Say whether a claim that was not won holds the key, and did not even try to give it back."""
    entry = op.subject.current
    holds = entry is not None and entry.token == op.token and entry.state == "held"
    return holds and not op.late and (not op.unsure or op.asked == "held")
