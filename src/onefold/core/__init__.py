"""The nouns of Onefold, its pure decisions and its protocols as flows.

Nothing in here waits, reads a clock, draws a random number or imports a third party: what must be
known comes in as a value, what must be done goes out as a value. `drive` does the rest.
"""
