"""Which functions have their annotations checked at run time."""

from beartype import beartype


def checked(function):
    """Check the calls of a function, but not of one that is made within another.

    That is made anew, and its checks are written anew, at each call of the other: in a
    loop this took more time than the loop.
    """
    return function if "<locals>" in function.__qualname__ else beartype(function)
