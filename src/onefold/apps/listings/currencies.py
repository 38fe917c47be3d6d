"""Names currencies: from signs, abbreviations and words beside a price to codes of ISO 4217.

A sign or code that is not known stays as it is: a guess would show a price in the wrong money. Pure.
"""

from __future__ import annotations

import unicodedata

DOLLARS = ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "TWD", "MXN", "ARS", "CLP", "COP", "BBD", "JMD")
CROWNS = ("kr", "SEK", "NOK", "DKK", "ISK")

SIGNS: dict[str, tuple[str, ...]] = {
    "₪": ("ILS",), 'ש"ח': ("ILS",), "ש'ח": ("ILS",), "שח": ("ILS",), "שקל": ("ILS",), "שקלים": ("ILS",),
    "nis": ("ILS",), "ils": ("ILS",), "€": ("EUR",), "euro": ("EUR",), "euros": ("EUR",), "eur": ("EUR",),
    "$": DOLLARS, "usd": ("USD",), "us$": ("USD",), "a$": ("AUD",), "au$": ("AUD",), "c$": ("CAD",),
    "ca$": ("CAD",), "nz$": ("NZD",), "s$": ("SGD",), "hk$": ("HKD",), "nt$": ("TWD",), "r$": ("BRL",),
    "£": ("GBP", "EGP", "LBP", "SYP", "GIP"), "gbp": ("GBP",), "fr": ("CHF",), "sfr": ("CHF",),
    "chf": ("CHF",), "kr": CROWNS, "¥": ("¥", "JPY", "CNY"), "￥": ("¥", "JPY", "CNY"), "円": ("JPY",),
    "元": ("CNY",), "원": ("KRW",), "₩": ("KRW",),
    "zł": ("PLN",), "kč": ("CZK",), "₺": ("TRY",), "tl": ("TRY",), "₽": ("RUB",), "руб": ("RUB",),
    "₴": ("UAH",), "₹": ("INR",), "rs": ("Rs", "INR", "PKR", "LKR", "NPR", "MUR"), "฿": ("THB",),
    "₫": ("VND",), "₱": ("PHP",), "rp": ("IDR",), "rm": ("MYR",), "lei": ("RON",),
}  # fmt: skip
"""What a sign means. Where it means several currencies, the first is taken unless the site uses another."""

CODES = frozenset(
    word
    for line in (
        "AED AFN AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF",
        "CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ",
        "GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP",
        "LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR",
        "PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC",
        "SYP SZL THB TJS TMT TND TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR",
        "ZMW ZWG",
    )
    for word in line.split()
)
"""Codes that are recognised beside a price, in capitals; without ALL and TOP, which advertisements shout."""


def is_currency(word: str) -> bool:
    """Say whether a word or sign beside a price names a currency; any sign of Unicode's currencies does."""
    return (
        word in CODES or word.casefold() in SIGNS or (len(word) == 1 and unicodedata.category(word) == "Sc")
    )


def code_of(sign: str, home: str = "") -> str:
    """Return the code that a sign stands for at a site whose currency is `home`; unknown ones as they are."""
    meant = SIGNS.get(sign.casefold())
    if meant is None:
        return sign.upper() if sign.upper() in CODES else sign
    return home if home in meant else meant[0]
