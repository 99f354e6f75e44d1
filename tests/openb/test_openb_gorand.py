"""Go's generator: numbers any Go program prints for these seeds."""

from fairway.openb.gorand import GoRand


def test_numbers_of_seed_one():
    chance = GoRand(1)
    assert [chance.int63() for _ in range(3)] == [
        5577006791947779410,
        8674665223082153551,
        6129484611666145821,
    ]


def test_bounded_numbers_of_seed_one():
    """rand.Intn(100), as the Go tour shows."""
    chance = GoRand(1)
    assert [chance.below(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_permutations_and_shuffles_permute():
    chance = GoRand(42)
    assert sorted(chance.permutation(50)) == list(range(50))
    items = list(range(50))
    chance.shuffle(items)
    assert sorted(items) == list(range(50))
    assert items != list(range(50))


def test_refilling_continues_the_sequence():
    """The draws after a refill are those of a generator that skipped there."""
    first, second = GoRand(7), GoRand(7)
    first.skip(16384 + 100)
    assert [first.int63() for _ in range(5)] == [second.int63() for _ in range(16384 + 105)][-5:]


def test_every_seed_counts():
    assert len({GoRand(seed).int63() for seed in range(200)}) == 200
