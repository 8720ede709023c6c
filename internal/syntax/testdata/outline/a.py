X: int = 1


class A(B):
    """What it is.

    More."""
    y = 2

    @property
    def f(self, a) -> int:
        "Says f."
        local = 1

        def inner():
            pass
        return 1


# Says g.
async def g(): return 1
