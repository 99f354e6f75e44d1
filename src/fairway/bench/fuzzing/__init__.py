"""Can anything that clients send make the server stumble? Requests that nobody should send, from a seed.

In: a seed, and what the server says it serves. Out: requests without end. `seeds.yaml` has one valid object of every
kind, `mutations` spoils values, `requests` makes requests of both, `attack` sends them and keeps count, and asks in the
end whether the controllers are alive. The benchmark `fuzz` does so for hours, the test suite for seconds.
"""
