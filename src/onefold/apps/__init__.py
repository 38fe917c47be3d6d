"""The applications: nouns only (parse, key, words, settings) on top of the worker.

What two of them need stands in a module whose name begins with an underscore. None of them claims, retries
or keeps a cursor by itself.
"""
