"""Do the hot modules run as compiled code?

The rooms named in `building.MODULES` are ordinary typed Python. Where a C compiler is at hand, `make` lets mypyc
translate them once, into a directory of the virtual environment; `loading` takes them from there as long as
every source file of the package is what it was then. Otherwise, and with `FAIRWAY_COMPILED=0`, Python runs the
sources. Both do the same: the same digests, the same words; only speed differs.

In: the sources. Out: extension modules that import under the same names.
Reading order: `loading` (every start of Python goes through it: it imports next to nothing), `building`.

    python -m fairway.compiled          # what is it now, and why
    python -m fairway.compiled needs    # is anything missing to compile them
    python -m fairway.compiled build
"""
