"""Which release of Kafka to answer like. Behaviour that changed between releases is chosen by comparing with one of these.

```python
KafkaVersion.parse("4.0.2") < KafkaVersion.NEWEST
```
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

__all__ = ["KafkaVersion"]


@dataclass(frozen=True, slots=True, order=True)
class KafkaVersion:
    """A release, such as 4.3.1; ordered. Anything that takes one takes `KafkaVersion.NEWEST`, the release that the tests compare with, by default."""

    major: int
    minor: int
    patch: int = 0

    NEWEST: ClassVar["KafkaVersion"]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "4.3.1"; "4.3" is 4.3.0. Raises `ValueError`."""
        found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?", text.strip(), re.ASCII)
        if found is None:
            raise ValueError(f"{text!r} is not a version of Kafka: write it as 4.3.1")
        major, minor, patch = found.groups(default="0")
        return cls(int(major), int(minor), int(patch))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


KafkaVersion.NEWEST = KafkaVersion(4, 3, 1)
