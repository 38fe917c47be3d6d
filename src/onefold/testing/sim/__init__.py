"""A seeded simulation: production flows against the production memory store, under every fault we know.

`python -m onefold.testing.sim 10000` runs ten thousand histories and proves, with bugs planted into
copies of the code, that its checkers can see. `--seed N` replays one history with a readable trace.
Production code imports nothing from here.
"""
