"""Which random numbers did the published runs draw?

The FGD paper's simulator takes every random decision from Go's `math/rand` seeded with the run's number
(42 … 51). The same generator here makes our seed 42 the paper's run 42: the same shuffled pods, the same
resampled extras, the same order among equally good nodes.

The generator is an additive lagged Fibonacci sequence, x[n+607] = x[n] + x[n+334] (mod 2**64), whose first
607 values are those of a linear congruential generator xor-ed with a fixed table. Go ships that table as
607 literals and says how they came about: the same recurrence after 7.8e12 steps. Here they are computed
from that definition, by raising t to the 7.8e12 in the ring of polynomials modulo t**607 - t**334 - 1.

Source: the Go standard library's documentation of math/rand, and its gen_cooked.go (the definition).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LAG = 607  # values the next one depends on
TAP = 334  # the nearer of the two summands, counted from the oldest value
WARMUP_STEPS = 7_800_000_000_000  # steps taken before Go's table was written down
LCG_FACTOR = 48271  # Lehmer generator that fills the first values
LCG_PRIME = (1 << 31) - 1
LCG_DISCARD = 20  # Lehmer steps thrown away before the first value
SEED_FOR_ZERO = 89482311  # what Go seeds with when asked for zero
MASK63 = (1 << 63) - 1
DRAWS_AT_ONCE = 16384

UInt64s = NDArray[np.uint64]


class GoRand:
    """A `rand.Rand` of Go: the same draws for the same seed. Not safe for secrets, as there."""

    def __init__(self, seed: int) -> None:
        self._tail = _first_values(seed)
        self._draws: list[int] = []
        self._next = 0

    def int63(self) -> int:
        """The next integer in [0, 2**63)."""
        if self._next == len(self._draws):
            self._refill()
        value = self._draws[self._next]
        self._next += 1
        return value

    def skip(self, draws: int) -> None:
        """Draw and forget."""
        for _ in range(draws):
            self.int63()

    def below(self, n: int) -> int:
        """Go's Intn for 0 < n < 2**31: uniform in [0, n), rejecting the uneven rest."""
        if n & (n - 1) == 0:
            return (self.int63() >> 32) & (n - 1)
        limit = (1 << 31) - 1 - (1 << 31) % n
        value = self.int63() >> 32
        while value > limit:
            value = self.int63() >> 32
        return value % n

    def permutation(self, n: int) -> list[int]:
        """Go's Perm: the integers below n, inside-out shuffled."""
        order = [0] * n
        for i in range(n):
            j = self.below(i + 1)
            order[i] = order[j]
            order[j] = i
        return order

    def shuffle(self, items: list[int]) -> None:
        """Go's Shuffle, in place: Fisher-Yates from the end, bounded draws by multiplication."""
        for i in range(len(items) - 1, 0, -1):
            j = self._below_by_product(i + 1)
            items[i], items[j] = items[j], items[i]

    def _below_by_product(self, n: int) -> int:
        product = (self.int63() >> 31) * n
        low = product & 0xFFFFFFFF
        if low < n:
            threshold = (1 << 32) % n
            while low < threshold:
                product = (self.int63() >> 31) * n
                low = product & 0xFFFFFFFF
        return product >> 32

    def _refill(self) -> None:
        values = _extended(self._tail, LAG + DRAWS_AT_ONCE)
        self._tail = values[-LAG:]
        self._draws = (values[LAG:] & np.uint64(MASK63)).tolist()
        self._next = 0


def _first_values(seed: int) -> UInt64s:
    """The 607 values before the first draw, oldest first: uint64[607]."""
    return (_lehmer_words(seed, shifts=(40, 20, 0)) ^ _warm_table())[_array_position()]


def _lehmer_words(seed: int, shifts: tuple[int, int, int]) -> UInt64s:
    """Three Lehmer values per word, shifted and xor-ed together: uint64[607] in Go's array order."""
    start = seed % LCG_PRIME or SEED_FOR_ZERO
    powers = _lehmer_powers()
    steps = (powers * np.uint64(start) % np.uint64(LCG_PRIME)).reshape(LAG, 3)
    high, middle, low = (steps[:, k] << np.uint64(shifts[k]) for k in range(3))
    words: UInt64s = high ^ middle ^ low
    return words


@lru_cache(maxsize=1)
def _lehmer_powers() -> UInt64s:
    """LCG_FACTOR to the power of 21 … 1841, modulo the prime: what each step multiplies the seed with."""
    values, power = [], pow(LCG_FACTOR, LCG_DISCARD, LCG_PRIME)
    for _ in range(3 * LAG):
        power = power * LCG_FACTOR % LCG_PRIME
        values.append(power)
    return np.array(values, dtype=np.uint64)


def _array_position() -> NDArray[np.int64]:
    """Where Go keeps the k-th oldest value in its array before the first draw."""
    return (TAP - 1 - np.arange(LAG)) % LAG


@lru_cache(maxsize=1)
def _warm_table() -> UInt64s:
    """Go's table: the recurrence from seed 1 after WARMUP_STEPS steps, in Go's array order."""
    start = _lehmer_words(1, shifts=(20, 10, 0))[_array_position()]
    coefficients = _power_of_t(WARMUP_STEPS)
    run = _extended(start, 2 * LAG)
    windows = np.lib.stride_tricks.sliding_window_view(run, LAG)[:LAG]
    warmed = (windows * coefficients).sum(axis=1, dtype=np.uint64)
    table = np.empty(LAG, dtype=np.uint64)
    table[_array_position()[(WARMUP_STEPS + np.arange(LAG)) % LAG]] = warmed
    return table


def _power_of_t(exponent: int) -> UInt64s:
    """Coefficients of t**exponent modulo t**607 - t**334 - 1: uint64[607], by repeated squaring."""
    result = np.zeros(LAG, dtype=np.uint64)
    result[0] = 1
    for bit in bin(exponent)[2:]:
        result = _reduced(np.convolve(result, result))
        if bit == "1":
            result = _reduced(np.concatenate(([np.uint64(0)], result)))
    return result


def _reduced(polynomial: UInt64s) -> UInt64s:
    """The remainder modulo t**607 - t**334 - 1."""
    out = np.zeros(max(len(polynomial), LAG), dtype=np.uint64)
    out[: len(polynomial)] = polynomial
    while len(out) > LAG:
        keep = max(LAG, len(out) - (LAG - TAP))
        excess = out[keep:]
        out = out[:keep].copy()
        out[keep - LAG : keep - LAG + len(excess)] += excess
        out[keep - LAG + TAP : keep - LAG + TAP + len(excess)] += excess
    return out


def _extended(values: UInt64s, length: int) -> UInt64s:
    """The sequence that starts with the 607 `values`, continued to `length` values."""
    out = np.empty(length, dtype=np.uint64)
    out[:LAG] = values
    block = LAG - TAP
    for n in range(LAG, length, block):
        end = min(n + block, length)
        out[n:end] = out[n - LAG : end - LAG] + out[n - LAG + TAP : end - LAG + TAP]
    return out
