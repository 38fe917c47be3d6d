"""A seeded simulation: production flows against the production memory store, under every fault we know.

`python -m proof.sim 10000` runs ten thousand histories and proves, with bugs planted into
copies of the code, that its checkers can see. `--seed N` replays one history with a readable trace.
The package `onefold` imports nothing from here.
"""
