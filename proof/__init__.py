"""What we hold Onefold against ourselves: tools for this repository only, which are not part of the wheel.

Everything here may import anything of `onefold`; nothing in `onefold` may import or start anything from here.
It runs from the top of a checkout, for example `python -m proof.sim`.
"""
