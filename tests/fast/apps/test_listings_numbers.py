"""How numbers and currencies of listings are read: a table of what people write, and what is refused."""

from __future__ import annotations

import pytest

from onefold.apps.listings.currencies import code_of
from onefold.apps.listings.numbers import FLOORS, METERS, ROOMS, amount, currency_of, number, number_or_none

THIN, NARROW, NO_BREAK, FIGURE, HAIR = "\u2009", "\u202f", "\u00a0", "\u2007", "\u200a"

PRICES = [
    # thousands, in all common conventions
    ("7000", 7000),
    ("7,000", 7000),
    ("7.000", 7000),
    ("7'000", 7000),
    ("CHF 2’710", 2710),
    ("2‘710", 2710),
    ("2ʼ710", 2710),
    ("2´710", 2710),
    ("7 000", 7000),
    (f"7{THIN}000", 7000),
    (f"7{NARROW}000 €", 7000),
    (f"7{NO_BREAK}000", 7000),
    (f"7{FIGURE}000", 7000),
    (f"7{HAIR}000", 7000),
    ("1.234.567", 1234567),
    ("1,234,567", 1234567),
    ("1 234 567", 1234567),
    ("1’234’567.50", 1234567.5),
    ("₹1,00,000", 100000),
    ("12,34,567", 1234567),
    ("Rs. 1,23,45,678.50", 12345678.5),
    # decimals
    ("959,87", 959.87),
    ("959.87", 959.87),
    ("1.234,50 €", 1234.5),
    ("1,234.50", 1234.5),
    ("1 234,5", 1234.5),
    ("1'234.50", 1234.5),
    ("1.234,567", 1234.57),
    ("1200.0000", 1200),
    ("1200.000", 1200),
    ("0.750", 0.75),
    ("1,5", 1.5),
    # three digits after the only mark are thousands
    ("1,234", 1234),
    ("1.234", 1234),
    ("123.456", 123456),
    # without decimals, as in Switzerland and Germany
    ("1'200.-", 1200),
    ("1200,-", 1200),
    ("CHF 1’200.–", 1200),
    ("1.200,-- €", 1200),
    # fractions
    ("3 ½", 3.5),
    ("3½", 3.5),
    ("½", 0.5),
    ("2¾", 2.75),
    ("3⅓", 3.33),
    ("3 1/2", 3.5),
    ("3 1⁄2", 3.5),
    # ranges give their lower end
    ("7,000 - 7,500", 7000),
    ("1200–1500 €", 1200),
    ("€1,200 - €1,500", 1200),
    ("1.200 € bis 1.500 €", 1200),
    ("1200 to 1500", 1200),
    ("5000 עד 6000", 5000),
    ("8-9万円", 80000),
    # from
    ("from 1,200", 1200),
    ("ab 1.200 €", 1200),
    ("à partir de 850 €", 850),
    ("החל מ-4000 ₪", 4000),
    ("1200+", 1200),
    ("ca. 900", 900),
    # a currency before or after, and other words
    ("₪7,500", 7500),
    ("7 000 ₪", 7000),
    ('5,850 ש"ח', 5850),
    ("5,850 ש״ח לחודש", 5850),
    ("EUR1200", 1200),
    ("1200EUR", 1200),
    ("Fr. 1200", 1200),
    ("US$ 1,200", 1200),
    ("$1,200 CAD", 1200),
    ("1,200 kr/mån", 1200),
    ("\u200f7,000\u200f ₪", 7000),
    ("Miete: 1.200 € kalt", 1200),
    ("1.200 €/Monat", 1200),
    ("3 rooms, 1.200 €", 1200),
    ("5,000 ₪, 054-1234567", 5000),
    ("Rp 150000000", 150000000),
    ("1200.", 1200),
    # words that multiply
    ("8.5万円", 85000),
    ("1,2k", 1200),
    ("1,125 Mio €", 1125000),
    ("15 lakh", 1500000),
    # digits of other scripts
    ("٧٬٠٠٠", 7000),
    ("१,००,०००", 100000),
    ("７，０００", 7000),
    # no price
    ("on request", None),
    ("Preis auf Anfrage", None),
    ("", None),
    ("0", None),
    ("0,00 €", None),
    ("m²", None),
    (None, None),
    (0, None),
    (-0.0, None),
    (7000, 7000),
    (959.87, 959.87),
]

REFUSED = [
    # phone numbers
    "054-1234567", "0541234567", "+972 54 123 4567", "+49 151 234 567", "541234567", "555-123-4567",
    "(555) 123-4567", "555-1234", "501 234 567", "call 5551234", "tel. 555 123", "טל 5551234",
    # dates and times
    "2026-04-01", "01.04.2026", "1.4.2026", "01.04.26", "01/04/26", "12/2026", "2026-04", "20260401",
    "1 April 2026", "April 2026", "10:30", "2026-04-01T00:00:00Z",
    # ids
    "#4711", "№ 4711", "ID 4711", "Nr. 17", "A-17", "A17", "X4711Z", "12a34", "007", "123456789012", "1e5",
    "0x1f", "0xzz", "192.168.10.1", "2.1.3",
    # several numbers, and what is no price
    "1200 1500", "1200 + 150", "1200 € + 150 €", "2+1", "12 €/m²", "12 € pro qm", "3 %", "3%", "1/2", "2/5",
    # groups of no convention
    "1,00", "1.23.4", "12,3456", "1,2,3", "1 2", "1.234.56", "1'2", ".5", "1٢3",
    # below zero, too large, and no range
    "-5", "−5", "- 5", "€ -5", "-1.200 €", "9" * 500, "9" * 500 + " €", "1500 - 1200", "5 - 5000",
]  # fmt: skip


@pytest.mark.parametrize(("written", "wanted"), PRICES)
def test_a_price_is_read_in_every_common_convention(written, wanted):
    assert amount(written) == wanted


@pytest.mark.parametrize("written", [text for text in REFUSED if text not in ("1,00", "- 5")])
def test_digits_that_are_no_price_are_refused_with_the_reason(written):
    with pytest.raises(ValueError, match="its price is"):
        amount(written)


def test_a_dash_before_a_price_is_no_minus_unless_it_is_glued_to_it():
    assert amount("Miete - 1200 €") == 1200
    assert amount("1,00") == 1


@pytest.mark.parametrize(
    "odd", [True, False, {"amount": 5}, [5], float("nan"), float("inf"), -5, 10**400, 2.0**70]
)
def test_a_price_of_a_wrong_type_or_size_is_refused(odd):
    with pytest.raises(ValueError, match="its price is"):
        amount(odd)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (3, 3), (0, 0), ("2,5", 2.5), ("3 ½", 3.5), ("3½ Zimmer", 3.5), ("2-3", 2), ("3.", 3), ("2 Zi.", 2),
        ("2BR", 2), ("3 חדרים", 3), ("studio", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_rooms_may_be_halves_ranges_and_words(written, wanted):
    assert number(written, "bedrooms", ROOMS) == wanted


@pytest.mark.parametrize(
    "odd", [True, [3], {"n": 3}, "-1", -1, 1200, "054-1234567", "2 bed 1 bath", "2/3", "0x"]
)
def test_rooms_that_are_no_number_of_rooms_are_refused(odd):
    with pytest.raises(ValueError, match="its bedrooms is"):
        number(odd, "bedrooms", ROOMS)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("75 m²", 75), ("75m2", 75), ("75,5 qm", 75.5), ("ca. 75qm", 75), ("כ-75 מ״ר", 75), ("1.200 m²", 1200),
     ("75 m² / 3 Zi.", None), (True, None), (float("nan"), None), ([1], None)],
)  # fmt: skip
def test_an_area_is_read_or_left_out(written, wanted):
    assert number_or_none(written, METERS) == wanted


@pytest.mark.parametrize(
    ("written", "wanted"), [("3. OG", 3), ("-1", -1), (-1, -1), ("EG", None), ("2/5", None)]
)
def test_a_floor_may_lie_below_the_ground(written, wanted):
    assert number_or_none(written, FLOORS) == wanted


@pytest.mark.parametrize(
    ("written", "home", "wanted"),
    [
        ("CHF 2’710", "ILS", "CHF"),
        ("2710 XAF", "ILS", "XAF"),
        ("₿ 0.5", "ILS", "₿"),
        ("1.200 €", "ILS", "EUR"),
        ("7 ₪", "EUR", "ILS"),
        ('7 ש"ח', "EUR", "ILS"),
        ("$1,200", "ILS", "USD"),
        ("$1,200", "CAD", "CAD"),
        ("$1,200 CAD", "ILS", "CAD"),
        ("1200 kr", "ILS", "kr"),
        ("1200 kr", "SEK", "SEK"),
        ("Fr. 1200", "ILS", "CHF"),
        ("8.5万円", "ILS", "JPY"),
        ("1200 € - 1500 €", "ILS", "EUR"),
        ("1200", "ILS", None),
        ("TOP 1200", "ILS", None),
        ("054-1234567", "ILS", None),
        (1200, "ILS", None),
    ],
)
def test_a_currency_is_what_stands_beside_the_price_and_never_a_guess(written, home, wanted):
    assert currency_of(written, home) == wanted


def test_a_currency_that_is_not_known_stays_as_it_is():
    assert [code_of(one) for one in ("€", "eur", "Zorkmid", "XYZ", "pkr")] == [
        "EUR",
        "EUR",
        "Zorkmid",
        "XYZ",
        "PKR",
    ]
