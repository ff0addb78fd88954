"""Random problems of every kind, each under a watchdog: ``python -m benchmarks.stress --seconds 60``.

dice       random choices, all of which follow from a seed and a number
networks   random networks: everything in the zoo, damaged, edited, imported, or drawn link by link
traffic    random collectives on a network
problems   a problem: a network, collectives, settings, and what is to follow the plan
checks     what may follow a plan
judge      one problem from its number to its verdict
watchdog   processes that work, and are ended when they hang
tally      what came of all problems, for people
"""
