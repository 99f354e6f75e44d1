"""What does every GPU do at every moment? Worked out from who held it, when somebody asks.

In: a `Fleet`: rows of devices (or MIG instances) and the segments of time in which pods used them (`fleet`). Out: any
field of DCGM for any rows and ticks of `TICK_S` seconds, as float32[row, tick] (`fields`), a pure function of fleet
and time: the same values however the time is cut.

Reading order: `boards` (what a model draws and how hot it gets), `kinds` (how training, serving, … use a GPU),
`fleet`, `activity` (how busy), `frame` (what follows from it: power, heat, clocks), `fields`.
"""

from fairway.telemetry.gpus.fleet import TICK_S, Fleet, FleetBuilder, Use

__all__ = ["TICK_S", "Fleet", "FleetBuilder", "Use"]
