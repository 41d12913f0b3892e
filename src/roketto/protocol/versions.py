"""Versions of RocketMQ as commands count them: the ordinal of a release in Java's list of all.

| ordinals  | releases                                                            |
|-----------|---------------------------------------------------------------------|
| 0 - 15    | 3.0.0 and its alphas and betas, in an order of their own            |
| 16 - 45   | 3.0.1 to 3.0.15; from here on each is a SNAPSHOT, then a release     |
| 46 - 85   | 3.1.0 to 3.2.9                                                      |
| 86 - 211  | 3.3.1 to 3.9.9, without the releases that would end in 0            |
| 212 - 611 | 4.0.0 to 5.9.9; of these, 5.b.c is 413 + 20 b + 2 c                 |
| 612 -     | HIGHER_VERSION                                                      |

A command that says nothing carries 0. What depends on a version compares ordinals with the
constants below.
"""

from typing import Final

V3_0_7_SNAPSHOT: Final = 28
"""Clients from here on take reset-offset and consumer-status requests."""

V3_0_11: Final = 37
"""Brokers from here on register with filter servers and topics in one body."""

V3_1_8_SNAPSHOT: Final = 62
"""Clients from here on tell their running state and consume a message on request."""

V3_4_9: Final = 121
"""Clients from here on decide themselves how often a message is consumed again."""

V4_1_0_SNAPSHOT: Final = 232
"""Brokers from here on filter by SQL92."""

V4_9_3: Final = 399
"""Clients up to here add _UNIQUE_KEY_QUERY after signing."""

V4_9_4: Final = 401
"""Clients from here on are sent routes in standard JSON."""

V4_9_7: Final = 407
"""The 4.x peer of our tests."""

V5_0_0: Final = 413
"""Brokers from here on register queue mappings of static topics too."""

V5_3_1: Final = 475
"""Clients after this one understand GO_AWAY."""

V5_5_0: Final = 513
"""What we are compatible with."""

CURRENT_VERSION: Final = V5_5_0
"""What we report of ourselves in every command."""

_PRERELEASES = (
    *("V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3"),
    *("V3_0_0_BETA4", "V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6"),
    *("V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7", "V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8"),
    *("V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL"),
)

_HIGHER_VERSION = "HIGHER_VERSION"


def _make_names() -> tuple[str, ...]:
    patches = {(3, 0): range(1, 16), (3, 1): range(10), (3, 2): range(10)}
    patches |= {(3, minor): range(1, 10) for minor in range(3, 10)}
    patches |= {(major, minor): range(10) for major in (4, 5) for minor in range(10)}
    names = list(_PRERELEASES)
    for (major, minor), numbers in patches.items():
        for patch in numbers:
            name = f"V{major}_{minor}_{patch}"
            names += (f"{name}_SNAPSHOT", name)
    return tuple(names)


_NAMES: Final = _make_names()


def version_name(ordinal: int) -> str:
    """Return the name Java's tools print for a version; what it does not know is HIGHER_VERSION.

    Java fails on a negative ordinal. A peer may send one, so here it has the name of the unknown.
    """
    return _NAMES[ordinal] if 0 <= ordinal < len(_NAMES) else _HIGHER_VERSION
