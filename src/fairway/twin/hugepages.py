"""Large heaps on large pages: what a long simulation holds lies on pages of 2 MiB.

A month of a fleet walks hundreds of MiB of small objects in no order; on pages of 4 KiB most steps look their address
up first. Kernels set to `madvise`, as Debian's are, give large pages to those who ask, and Python's allocator does not:
`compiled/arenas.c` asks for it. Without a build of the hot modules, and elsewhere than on Linux, nothing happens.
"""

from __future__ import annotations

from functools import cache


@cache
def ask() -> bool:
    """Let this process's new objects lie on large pages, once for all; whether that could be asked."""
    try:
        from fairway.compiled.arenas import on_large_pages
    except ImportError:
        return False
    return on_large_pages()
