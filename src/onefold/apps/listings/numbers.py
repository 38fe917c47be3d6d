"""Reads the numbers of listings as people write them: prices, rooms, areas and floors.

The rule is: exactly one number, or a range, or none. A text without digits holds no number. Digits that are
not exactly one number (a phone number, a date, an id, two prices) are a ValueError with the reason, never a
guess. Pure; the module knows no site and no table.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from onefold.apps.listings.currencies import code_of, is_currency

LARGEST = 10.0**11
"""Larger amounts are ids or damage; a house costs 10^10 in the smallest currencies."""

BARE_DIGITS = 8
"""Without a currency beside it, a number with more digits is a phone number or an id."""

WIDEST_RANGE = 10
"""The higher end of a range is at most so many times the lower end."""

ROOMS = (0.0, 100.0)
METERS = (0.0, 10.0**7)
FLOORS = (-20.0, 300.0)


# ----- what callers ask for


def amount(found: Any) -> float | None:
    """Read a price: of a range the lower end, None where there is none ("on request", 0)."""
    read = _read(found, "price", PRICE_UNITS)
    if read is not None and read < 0:
        raise ValueError(f"its price is {found!r:.60}, below zero")
    if isinstance(found, str) and _PER_AREA.search(_normal(found)):
        raise ValueError(f"its price is {found!r:.60}, which is the price of an area")
    return read or None  # a price of 0 is how sites write that there is none


def number(found: Any, what: str = "number", within: tuple[float, float] = (0.0, LARGEST)) -> float | None:
    """Read a number within limits; None where the text holds no digits ("studio")."""
    read = _read(found, what, OTHER_UNITS)
    if read is not None and not within[0] <= read <= within[1]:
        raise ValueError(f"its {what} is {found!r:.60}, not within {within[0]:g} and {within[1]:g}")
    return read


def number_or_none(found: Any, within: tuple[float, float]) -> float | None:
    """Read a number that is only shown and that no filter compares: one that cannot be read is left out."""
    try:
        return number(found, "number", within)
    except ValueError:
        return None


def readable(text: str) -> str:
    """Write spaces, dashes, quotes and digits in one way; a text with digits of two scripts is unchanged."""
    try:
        return _normal(text)
    except ValueError:
        return text


def currency_of(found: Any, home: str = "") -> str | None:
    """Read the currency beside a price; `home` decides what a sign of several countries means."""
    if not isinstance(found, str):
        return None
    try:
        written = _written(found, PRICE_UNITS)
    except ValueError:
        return None
    names = sorted({code_of(sign, home) for sign in written.signs}) if written else []
    return _one_currency(names)


def _one_currency(names: Sequence[str]) -> str | None:
    """Choose the more exact one where two stand beside a price, as in `$1,200 CAD`."""
    codes = [name for name in names if len(name) == 3 and name.isalpha()]
    return next(iter([*codes, *names]), None)


def _read(found: Any, what: str, units: frozenset[str]) -> float | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise ValueError(f"its {what} is {found!r:.60}, no amount")
    if isinstance(found, str):
        try:
            written = _written(found, units)
        except ValueError as error:
            raise ValueError(f"its {what} is {found!r:.60}, no amount: {error}") from None
        if written is None:
            return None
        found = written.value
    # Compared first: a whole number of 400 digits is no float, and NaN is less than nothing.
    if not abs(found) < LARGEST or not math.isfinite(found):
        raise ValueError(f"its {what} is {found!s:.60}, no amount: it is too large")
    return round(float(found), 2)


# ----- one text

Kind = Literal["number", "currency", "word", "area", "dash", "space", "other"]


class Token(NamedTuple):
    """A piece of a text. The tokens of a text cover all of it."""

    kind: Kind
    text: str


class Written(NamedTuple):
    """The one number of a text, and the currency signs beside it."""

    value: Decimal
    signs: tuple[str, ...] = ()


FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"

_TOKEN = re.compile(
    rf"(?P<number>\d{{1,3}} ?[{FRACTIONS}]|[{FRACTIONS}]|\d{{1,3}} [1-9][/⁄][2-9](?![\d/])"
    r"|\d+(?:[.,'٫ ]\d+)*(?:[.,] ?-{1,3}(?!\d))?)"
    r"|(?P<area>(?:k?m|ft)(?:2(?!\d)|²|\^2))"
    r"|(?P<currency>[A-Z]{1,3}\$)"
    r"|(?P<times>[万萬만億亿억])"
    r"|(?P<word>[^\W\d_]+(?:[\"'][^\W\d_]+)*)"
    r"|(?P<dash>[-~～…])"
    r"|(?P<space>\s+)"
    r"|(?P<other>.)"
)

_SHAPES = (
    re.compile(r"(?P<whole>\d+)"),
    # Thousands by one mark throughout, then perhaps decimals by another: 1.234,50 and 1'234.50 and 1 234,5.
    re.compile(r"(?P<whole>[1-9]\d{0,2}(?P<mark>[.,' ])\d{3}(?:(?P=mark)\d{3})*)"
               r"(?:(?!(?P=mark))[.,٫](?P<decimals>\d+))?"),
    # India: the last three digits, before them pairs.
    re.compile(r"(?P<whole>[1-9]\d?(?:,\d{2})+,\d{3})(?:\.(?P<decimals>\d+))?"),
    # What is left of a single mark is a decimal one. Four digits after a comma may be a group of China's.
    re.compile(r"(?P<whole>\d+)(?:[.٫](?P<decimals>\d+)|,(?P<after>\d{1,3}))"),
)  # fmt: skip
_MULTIPLIED = re.compile(r"(?P<whole>\d+)(?:[.,٫](?P<decimals>\d+))?")

MULTIPLIERS = {
    "k": 10**3, "tsd": 10**3, "thousand": 10**3, "tausend": 10**3, "אלף": 10**3, "тыс": 10**3, "万": 10**4,
    "萬": 10**4, "만": 10**4, "lakh": 10**5, "lac": 10**5, "mio": 10**6, "mln": 10**6, "million": 10**6,
    "מיליון": 10**6, "млн": 10**6, "crore": 10**7, "億": 10**8, "亿": 10**8, "억": 10**8,
}  # fmt: skip
"""Words that multiply the number before them."""

PRICE_UNITS = frozenset({"pcm", "pm", "pw", "month", "mo", "vb", "vhb", "warm", "kalt"})
OTHER_UNITS = frozenset(
    {
        "m", "qm", "sqm", "mq", "sq", "zi", "zkb", "zimmer", "room", "rooms", "rm", "br", "bd", "bed", "beds",
        "bedroom", "bedrooms", "pièces", "p", "og", "st", "nd", "rd", "th", "er", "e",
    }
)  # fmt: skip
"""Words of Latin letters that may be glued to a number, as in 75qm; with any others it is an id."""

NAMES_BEFORE = frozenset({"id", "nr", "no", "ref", "code", "objekt", "zip", "plz", "n°", "#", "№"})
"""Directly before a number these say that it is a name and no amount."""

PHONES = frozenset(
    {"tel", "telefon", "phone", "call", "mobile", "whatsapp", "fax", "טל", "טלפון", "נייד", "וואטסאפ"}
)
MONTHS = frozenset(
    {
        "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
        "november", "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov",
        "dec", "januar", "februar", "märz", "mai", "juni", "juli", "oktober", "dezember", "ינואר", "פברואר",
        "מרץ", "אפריל", "מאי", "יוני", "יולי", "אוגוסט", "ספטמבר", "אוקטובר", "נובמבר", "דצמבר",
    }
)  # fmt: skip
RANGES = frozenset({"to", "bis", "till", "until", "à", "hasta", "עד", "до"})
"""Words between the ends of a range, beside dashes."""

_PER_AREA = re.compile(r"(?:/|\b(?:per|pro|par|je)\b) *(?:m2|m²|qm\b|sqm\b|mq\b|sq\b|מ\"ר)")
_DAY = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_LOCAL_PHONE = re.compile(r"\d{3}-\d{4}")


def _written(text: str, units: frozenset[str]) -> Written | None:
    """Find the one number of a text; of several the one that has a currency beside it."""
    tokens = _tokens(_normal(text))
    found = _amounts(tokens)
    if not found:
        return None
    priced = [one for one in found if _signs(tokens, one)]
    chosen = priced or found
    if len(chosen) > 1:
        raise ValueError(f"it holds {len(chosen)} numbers")
    [one] = chosen
    signs, value = _signs(tokens, one), _value(tokens, one, units)
    if not signs:
        _check_alone(tokens, one, value)
    return Written(value, signs)


# ----- characters


class _Letters(dict[int, str]):
    """How letters are written, worked out at the first sight of each: a free text has thousands."""

    def __missing__(self, code: int) -> str:
        self[code] = _plain(chr(code))
        return self[code]


_LETTERS = _Letters(dict.fromkeys(map(ord, "’‘ʼ′´`׳＇٬"), "'"))
_LETTERS.update({ord("，"): ",", ord("．"): ".", ord("−"): "-", ord("\u200b"): " "})
_LETTERS.update(dict.fromkeys(map(ord, "״“”"), '"'))
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


def _normal(text: str) -> str:
    """Write every space, dash, apostrophe and digit in one way, and leave out marks that nobody sees."""
    if _FOREIGN_DIGIT.search(text):
        zeros = {ord(letter) - unicodedata.decimal(letter) for letter in text if letter.isdecimal()}
        if len(zeros) > 1:
            raise ValueError("it mixes digits of several scripts")
    return text.translate(_LETTERS)


def _plain(letter: str) -> str:
    if letter.isdecimal():
        return str(unicodedata.decimal(letter))
    match unicodedata.category(letter):
        case "Zs":
            return " "
        case "Pd":
            return "-"
        case "Cf":  # marks of direction, which Hebrew and Arabic sites put around prices
            return ""
        case _:
            return letter


def _tokens(text: str) -> list[Token]:
    return [_token(found.lastgroup, found[0]) for found in _TOKEN.finditer(text)]


def _token(kind: Any, text: str) -> Token:
    if kind in ("word", "other") and is_currency(text):
        return Token("currency", text)
    return Token("word" if kind == "times" else kind, text)


# ----- which numbers there are

Amount = tuple[int, ...]
"""Where a number stands among the tokens; for a range, where both its ends stand."""


def _amounts(tokens: Sequence[Token]) -> list[Amount]:
    found: list[Amount] = []
    for at, token in enumerate(tokens):
        if token.kind != "number":
            continue
        if found and _is_range(tokens, found[-1][-1], at):
            found[-1] = (*found[-1], at)
        else:
            found.append((at,))
    return found


def _is_range(tokens: Sequence[Token], low: int, high: int) -> bool:
    """Say whether only a dash (or "to"), and perhaps currencies, stand between two numbers."""
    between = [one for one in tokens[low + 1 : high] if one.kind not in ("space", "currency")]
    joins = len(between) == 1 and (between[0].kind == "dash" or between[0].text.casefold() in RANGES)
    return joins and sum(one.kind == "currency" for one in tokens[low + 1 : high]) <= 2


def _signs(tokens: Sequence[Token], one: Amount) -> tuple[str, ...]:
    """List the currencies beside a number, or beside one end of a range."""
    beside = [_beside(tokens, at, step) for at in one for step in (-1, 1)]
    return tuple(dict.fromkeys(token.text for token in beside if token and token.kind == "currency"))


def _beside(tokens: Sequence[Token], at: int, step: int) -> Token | None:
    """Return the token before or after a number, past blanks, the end of an abbreviation and a minus."""
    at += step
    while 0 <= at < len(tokens) and (tokens[at].kind == "space" or tokens[at].text in ".:" or (
        step < 0 and tokens[at].kind == "dash"
    ) or (step > 0 and tokens[at].text.casefold() in MULTIPLIERS)):  # fmt: skip
        at += step
    return tokens[at] if 0 <= at < len(tokens) else None


# ----- whether one is an amount


def _check_alone(tokens: Sequence[Token], one: Amount, value: Decimal) -> None:
    """Refuse a number without a currency that looks like a phone number, an id or a date."""
    words = {token.text.casefold() for token in tokens if token.kind == "word"}
    written = [tokens[at].text for at in one]
    if words & PHONES:
        raise ValueError("it seems to be a phone number")
    if value >= 10**BARE_DIGITS and not any(_multiplier(tokens, at) for at in one):
        raise ValueError(
            f"it has more than {BARE_DIGITS} digits and no currency, like a phone number or an id"
        )
    if words & MONTHS or any(_DAY.fullmatch(text) for text in written):
        raise ValueError("it seems to be a date")
    if len(one) == 2 and _LOCAL_PHONE.fullmatch("".join(token.text for token in tokens[one[0] : one[1] + 1])):
        raise ValueError("it may be a phone number or a range")


def _value(tokens: Sequence[Token], one: Amount, units: frozenset[str]) -> Decimal:
    """Return the number, or the lower end of a range, after a look at what surrounds it."""
    if len(one) > 2:
        raise ValueError("it joins more than two numbers, like a date or a phone number")
    for at in one:
        _check_before(tokens, at, is_end=at != one[0])
        _check_after(tokens, at, units)
    times = [_multiplier(tokens, at) for at in one]
    ends = [_digits(tokens[at].text, by or times[-1]) for at, by in zip(one, times, strict=True)]
    if len(ends) == 2 and not ends[0] <= ends[1] <= ends[0] * WIDEST_RANGE:
        raise ValueError("it is no range: its ends are too far from each other")
    return -ends[0] if _is_negative(tokens, one[0]) else ends[0]


def _check_before(tokens: Sequence[Token], at: int, is_end: bool) -> None:
    before, further = _token_at(tokens, at - 1), _token_at(tokens, at - 2)
    match before.kind:
        case "word" if _is_latin(before):
            raise ValueError(f"{before.text!r:.20} is glued to its number, like in an id")
        case "dash" if not is_end and further.kind == "word" and _is_latin(further):
            raise ValueError(f"{further.text!r:.20} is glued to its number, like in an id")
        case "dash" if not is_end and further.kind in ("dash", "number"):
            raise ValueError("a dash is in a wrong place")
        case "other" if before.text in "+#№@_*":
            raise ValueError(f"{before.text} stands before its number, like in a phone number or an id")
        case "other" if before.text in ".,:/⁄" and further.kind not in ("word", "currency"):
            raise ValueError(f"{before.text} stands before its number, like in a date or a time")
        case _:
            pass
    word = _beside(tokens, at, -1)
    if word is not None and word.text.casefold() in NAMES_BEFORE:
        raise ValueError(f"{word.text!r:.20} says that it is a name and no amount")


def _check_after(tokens: Sequence[Token], at: int, units: frozenset[str]) -> None:
    after, further = _token_at(tokens, at + 1), _token_at(tokens, at + 2)
    word = after.text.casefold()
    if after.kind == "word" and _is_latin(after) and word not in units and word not in MULTIPLIERS:
        raise ValueError(f"{after.text!r:.20} is glued to its number, like in an id")
    if after.kind == "word" and further.kind == "number":
        raise ValueError("letters stand between its digits, like in an id")
    if after.text in ("/", "⁄", ":", "*") and further.kind == "number":
        raise ValueError(f"{after.text} stands between its numbers, like in a date or a time")
    if "%" in (after.text, further.text if after.kind == "space" else ""):
        raise ValueError("it is a percentage")


def _token_at(tokens: Sequence[Token], at: int) -> Token:
    """Return a token, and a space beyond the ends of the text."""
    return tokens[at] if 0 <= at < len(tokens) else Token("space", "")


def _is_latin(token: Token) -> bool:
    return unicodedata.name(token.text[-1], "").startswith("LATIN")


def _is_negative(tokens: Sequence[Token], at: int) -> bool:
    """Say whether a dash is a minus: it is glued to the number, and to no word as in Hebrew's prefixes."""
    return _token_at(tokens, at - 1).kind == "dash" and _token_at(tokens, at - 2).kind != "word"


def _multiplier(tokens: Sequence[Token], at: int) -> int:
    after = _token_at(tokens, at + 1)
    after = _token_at(tokens, at + 2) if after.kind == "space" else after
    return MULTIPLIERS.get(after.text.casefold(), 0)


# ----- digits


def _digits(text: str, times: int) -> Decimal:
    """Read digits and marks. `times` is the multiplier behind them, 0 for none."""
    text = text.rstrip(" -").rstrip(".,")
    if text[-1] in FRACTIONS or "/" in text or "⁄" in text:
        return _fraction(text) * (times or 1)
    shapes = (_MULTIPLIED,) if times and sum(not letter.isdigit() for letter in text) == 1 else _SHAPES
    found = next((match for shape in shapes if (match := shape.fullmatch(text))), None)
    if found is None:
        raise ValueError("its digits are grouped like those of no number")
    parts = found.groupdict()
    whole = re.sub(r"\D", "", parts["whole"])
    if len(whole) > 1 and whole[0] == "0":
        raise ValueError("it begins with 0, like a phone number or an id")
    return Decimal(f"{whole}.{parts.get('decimals') or parts.get('after') or 0}") * (times or 1)


def _fraction(text: str) -> Decimal:
    """Read a whole number and a fraction: 3½, 3 ½, ½ and 3 1/2."""
    if text[-1] in FRACTIONS:
        return Decimal(text[:-1].strip() or 0) + Decimal(str(unicodedata.numeric(text[-1])))
    whole, above, below = re.split("[ /⁄]", text)
    if int(above) >= int(below):
        raise ValueError("it is no fraction")
    return Decimal(whole) + Decimal(above) / Decimal(below)
