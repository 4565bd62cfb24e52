"""A bucket of a HashMap with so many keys that Java keeps them in a red-black tree.

Iteration follows a linked list through the nodes. A new key is inserted into the list right after
its parent in the tree, and a new root moves to the front. So the order depends on how the tree
grew, and the same tree must be grown here.

It is a textbook red-black tree (Cormen et al.) with these choices of Java: keys are compared by
hash as a signed number, then by `compareTo`; a node with two children is replaced by its successor;
nodes with equal keys do not occur.
"""

from collections.abc import Iterable, Iterator
from typing import Any

LEFT, RIGHT = 0, 1


class TreeNode:
    """A key in a tree.

    `hash`: signed; `key`: the content of the bucket; `order`: compares it with keys of the same
    hash.
    """

    __slots__ = ("after", "before", "child", "hash", "key", "order", "parent", "red")

    def __init__(self, key: Any, spread_hash: int, order: Any) -> None:
        self.key = key
        self.hash = spread_hash - ((spread_hash >> 31) << 32)
        self.order = order
        self.red = False
        self.parent: TreeNode | None = None
        self.child: list[TreeNode | None] = [None, None]
        self.before: TreeNode | None = None
        self.after: TreeNode | None = None


class TreeBin:
    """A tree with a linked list of its nodes, which starts at `first`."""

    __slots__ = ("first", "root")

    def __init__(self, nodes: Iterable[TreeNode]) -> None:
        """Grow a tree of nodes in list order (`HashMap.TreeNode.treeify`)."""
        self.root: TreeNode | None = None
        self.first: TreeNode | None = None
        last: TreeNode | None = None
        for node in nodes:
            node.before, node.after = last, None
            if last is None:
                self.first = node
            else:
                last.after = node
            last = node
            self._insert(node)
        self._root_to_front()

    def __iter__(self) -> Iterator[TreeNode]:
        node = self.first
        while node is not None:
            yield node
            node = node.after

    def add(self, node: TreeNode) -> None:
        """Insert a new key (`putTreeVal`)."""
        parent = self._insert(node)
        assert parent is not None
        node.before, node.after = parent, parent.after
        if parent.after is not None:
            parent.after.before = node
        parent.after = node
        self._root_to_front()

    def remove(self, node: TreeNode, *, walking: bool) -> bool:
        """Remove a key (`removeTreeNode`); return whether the rest becomes a list again.

        During iteration (`walking`), Java keeps the order of the rest, and the tree a tree.
        """
        if node.before is None:
            self.first = node.after
        else:
            node.before.after = node.after
        if node.after is not None:
            node.after.before = node.before
        if self.first is None:
            self.root = None
            return True
        root = self.root
        assert root is not None
        left, right = root.child
        if not walking and (left is None or right is None or left.child[LEFT] is None):
            return True
        self._delete(node)
        if not walking:
            self._root_to_front()
        return False

    def _root_to_front(self) -> None:
        root, first = self.root, self.first
        if root is None or root is first:
            return
        assert first is not None
        assert root.before is not None
        root.before.after = root.after
        if root.after is not None:
            root.after.before = root.before
        root.before, root.after = None, first
        first.before = root
        self.first = root

    # ---- the tree

    def _insert(self, node: TreeNode) -> TreeNode | None:
        parent, side, here = None, LEFT, self.root
        while here is not None:
            parent = here
            if node.hash != here.hash:
                side = LEFT if node.hash < here.hash else RIGHT
            else:
                side = LEFT if node.order <= here.order else RIGHT
            here = here.child[side]
        node.parent, node.child, node.red = parent, [None, None], parent is not None
        if parent is None:
            self.root = node
        else:
            parent.child[side] = node
            self._after_insert(node)
        return parent

    def _after_insert(self, node: TreeNode) -> None:
        while True:
            parent = node.parent
            if parent is None:
                node.red = False
                return
            top = parent.parent
            if not parent.red or top is None:
                return
            side = LEFT if parent is top.child[LEFT] else RIGHT
            uncle = top.child[1 - side]
            if uncle is not None and uncle.red:
                uncle.red = parent.red = False
                top.red = True
                node = top
                continue
            if node is parent.child[1 - side]:
                self._rotate(parent, side)
                node, parent = parent, node
            parent.red = False
            top.red = True
            self._rotate(top, 1 - side)

    def _rotate(self, node: TreeNode, side: int) -> None:
        """Rotate: the node moves down to `side`, its child on the other side takes its place."""
        up = node.child[1 - side]
        assert up is not None
        inner = up.child[side]
        node.child[1 - side] = inner
        if inner is not None:
            inner.parent = node
        self._replace(node, up)
        up.child[side] = node
        node.parent = up

    def _replace(self, node: TreeNode, other: TreeNode | None) -> None:
        """Put `other` in the place of `node`."""
        parent = node.parent
        if parent is None:
            self.root = other
            if other is not None:
                other.red = False  # a root is black
        else:
            parent.child[LEFT if node is parent.child[LEFT] else RIGHT] = other
        if other is not None:
            other.parent = parent

    def _delete(self, node: TreeNode) -> None:
        left, right = node.child
        if left is not None and right is not None:
            self._swap_with_successor(node, right)
            left, right = node.child
        only = left if left is not None else right
        if only is not None:
            self._replace(node, only)
            if not node.red:
                self._after_delete(only)
            return
        # A node without children represents the missing one until the tree is balanced.
        if not node.red:
            self._after_delete(node)
        self._replace(node, None)

    def _swap_with_successor(self, node: TreeNode, right: TreeNode) -> None:
        successor = right
        while (smaller := successor.child[LEFT]) is not None:
            successor = smaller
        node.red, successor.red = successor.red, node.red
        after = successor.child[RIGHT]
        above = successor.parent
        assert above is not None
        top = node.parent
        if top is None:
            self.root = successor
        else:
            top.child[LEFT if node is top.child[LEFT] else RIGHT] = successor
        successor.parent = top
        successor.child[LEFT] = node.child[LEFT]
        if above is node:
            successor.child[RIGHT] = node
            node.parent = successor
        else:
            successor.child[RIGHT] = right
            right.parent = successor
            above.child[LEFT] = node
            node.parent = above
        smallest = successor.child[LEFT]
        if smallest is not None:
            smallest.parent = successor
        node.child = [None, after]
        if after is not None:
            after.parent = node

    def _after_delete(self, node: TreeNode) -> None:
        while node is not self.root:
            parent = node.parent
            assert parent is not None
            if node.red:
                node.red = False
                return
            side = LEFT if node is parent.child[LEFT] else RIGHT
            sibling = parent.child[1 - side]
            if sibling is not None and sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, side)
                sibling = parent.child[1 - side]
            if sibling is None:
                node = parent
                continue
            near, far = sibling.child[side], sibling.child[1 - side]
            if not _red(near) and not _red(far):
                sibling.red = True
                node = parent
                continue
            if far is None or not far.red:
                if near is not None:
                    near.red = False
                sibling.red = True
                self._rotate(sibling, 1 - side)
                sibling = parent.child[1 - side]
                assert sibling is not None
                far = sibling.child[1 - side]
            sibling.red = parent.red
            if far is not None:
                far.red = False
            parent.red = False
            self._rotate(parent, side)
            return


def _red(node: TreeNode | None) -> bool:
    return node is not None and node.red
