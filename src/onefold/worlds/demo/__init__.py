"""The demo: applications against stand-ins that misbehave, workers that are killed, an account that adds up.

It knows Onefold only as an operator does, by its commands; what happened outside it counts from the worlds'
journals.
"""
