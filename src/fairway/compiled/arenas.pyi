def on_large_pages() -> bool:
    """Let what Python allocates from now on lie on pages of 2 MiB; whether this system has them."""
