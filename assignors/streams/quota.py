"""The number of tasks up to which a member keeps or gets back its own."""


class Quota:
    """`per_member`: tasks left, divided by the members left, rounded up.

    A member that reaches it leaves, together with its tasks.
    """

    __slots__ = ("_members", "_tasks", "per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._divided()

    def count(self, tasks: int) -> None:
        """Take note that a member has a task more, now `tasks`."""
        if tasks == self.per_member:
            self._tasks -= tasks
            self._members -= 1
            self.per_member = self._divided()

    def _divided(self) -> int:
        """Divide as Java does: the quotient is rounded towards zero, before a rest is added."""
        if not self._members:
            return 0
        quotient = abs(self._tasks) // abs(self._members)
        if (self._tasks < 0) != (self._members < 0):
            quotient = -quotient
        return quotient + (self._tasks - quotient * self._members > 0)
