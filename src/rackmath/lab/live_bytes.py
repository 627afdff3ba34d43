"""How many bytes of tensors live at once: by the allocator of a GPU, or counted operation by operation."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Watch(TorchDispatchMode):
    """Follows every storage that operations bring to life until it dies."""

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and note the storages of its results."""
        out = func(*args, **(kwargs or {}))
        before = {_place(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and _place(leaf) not in before:
                self._note(leaf)
        return out

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if not size or place in self.known:
            return
        self.known.add(place)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._gone, place, size)

    def _gone(self, place: int, size: int) -> None:
        self.known.discard(place)
        self.live -= size


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def peak_bytes(work: Callable[[], object], device: str) -> int:
    """Most bytes of tensors that a piece of work brings to life at once, what lived before left out. [B]"""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with _Watch() as watch:
        work()
    return watch.peak


def saved_bytes(work: Callable[[], object], parameters: set[int]) -> int:
    """Bytes that a forward pass keeps for the backward one, each storage once, parameters left out. [B]

    Parameters
    ----------
    parameters : set of int
        Data pointers of what does not count.
    """
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = work()
        total = sum(sizes.values())
    del result
    return total
