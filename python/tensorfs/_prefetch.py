"""Tensors and rows that are read and converted ahead of the caller, by a plan: safetensors' PrefetchLoader for any model."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from . import _lib

Rows = Optional[tuple[int, int]]  # None: the whole tensor
Plan = Mapping[str, Optional[slice]]
_MOST_THREADS = 64


class Delivered(_lib.Invalid):
    """A tensor was handed out before."""


def rows_of(plan: Plan, shape_of: Callable[[str], tuple[int, ...]]) -> dict[str, Rows]:
    """The rows that a plan names, checked against the shapes of the tensors. A plan is explicit: a slice past the end is an error."""
    if not isinstance(plan, Mapping):
        raise _lib.Invalid(f"the plan is a {type(plan).__name__}: it has to be a dictionary of names, each with None or a slice")
    if not plan:
        raise _lib.Invalid("the prefetch plan selects no tensors")
    return {name: _rows(name, part, shape_of(name)) for name, part in plan.items()}


def _rows(name: str, part: Optional[slice], shape: tuple[int, ...]) -> Rows:
    if part is None:
        return None
    if not isinstance(part, slice):
        raise _lib.Invalid(f"{name!r}: a prefetch plan has None or a slice of rows for a tensor, and not {part!r}")
    if not shape:
        raise _lib.Invalid(f"{name!r} is 0-d: it has no rows; use None in the prefetch plan")
    count = shape[0]
    try:
        step = 1 if part.step is None else operator.index(part.step)
        first, end = (default if i is None else operator.index(i) for i, default in ((part.start, 0), (part.stop, count)))
    except TypeError:
        step = 0
    if step == 0:
        raise _lib.Invalid(f"{name!r}: invalid prefetch plan slice {part!r}: its numbers are integers, and its step is 1")
    if step != 1:
        raise _lib.Invalid(f"{name!r}: a prefetch plan takes slices with step 1, and not {part!r}")
    first, end = (i + count if i < 0 else i for i in (first, end))
    if not 0 <= first <= end <= count:
        raise _lib.OutOfRange(f"{name!r}: {part!r} is out of range of {count} rows")
    return first, end


def _refuse_in_child() -> None:
    """Raises in a forked child, which has no threads and whose locks may be held for ever."""
    if _lib.forked:
        raise _lib.Forked("the threads that prefetch are in the parent process: open the model again in a process that is spawned")


class Work:
    """The work of a loader's threads. It does not refer to the loader, so that an unreferenced loader ends its threads."""

    def __init__(self, get: Callable[[str, Rows], Any], plan: Mapping[str, Rows], threads: int):
        _refuse_in_child()
        self.plan, self._get = dict(plan), get
        self.changed = threading.Condition()
        self.left = dict.fromkeys(plan)  # what was not handed out
        self._pending = dict.fromkeys(reversed(list(plan)))  # what no thread has begun; the next is the last
        self._ready: dict[str, tuple[Any, Optional[BaseException]]] = {}
        self.closed = False
        self.users = {"loader", "file"}  # the work ends when both are gone
        self._threads = [threading.Thread(target=self._run, name="tensorfs prefetch", daemon=True) for _ in range(min(threads, len(plan), _MOST_THREADS))]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while True:
            with self.changed:
                if self.closed or not self._pending:
                    return
                try:
                    name, _ = self._pending.popitem()
                except KeyError:  # the collector has just closed it
                    return
                get = self._get
            try:
                done = get(name, self.plan[name]), None
            except BaseException as e:  # noqa: BLE001  it is raised where the tensor is asked for
                done = None, e
            with self.changed:
                if not self.closed:
                    self._ready[name] = done
                    self.changed.notify_all()
            del done

    def _check(self) -> None:
        if self.closed:
            raise _lib.Closed("the prefetch loader is closed")

    def take(self, name: str) -> Any:
        if name not in self.plan:
            raise _lib.Absent(f"{name!r} is not in the prefetch plan")
        _refuse_in_child()
        with self.changed:
            self._check()
            if name not in self.left:
                raise Delivered(f"{name!r} was already delivered: a prefetch loader hands out each tensor once")
            del self.left[name]
            if name not in self._pending:
                try:
                    self.changed.wait_for(lambda: self.closed or name in self._ready)
                except BaseException:  # Ctrl-C
                    self.left[name] = None
                    raise
                self._check()
                return _given(self._ready.pop(name))
            del self._pending[name]  # it is next, whatever its place in the plan
            get = self._get
        return get(name, self.plan[name])

    def next(self) -> Optional[tuple[str, Any]]:
        """The next tensor that is ready and was not handed out, in the order in which tensors become ready. None: none is left."""
        _refuse_in_child()
        with self.changed:
            found: list[str] = []

            def ready() -> bool:
                found[:] = [next((n for n in self._ready if n in self.left), "")] if self.left else []
                return self.closed or not self.left or found != [""]

            self.changed.wait_for(ready)
            self._check()
            if not self.left:
                return None
            del self.left[found[0]]
            self.changed.notify_all()
            return found[0], _given(self._ready.pop(found[0]))

    def drop(self, user: str) -> None:
        self.users.discard(user)
        if not self.users:
            self.close()

    def close(self, wait: bool = False) -> None:
        if _lib.forked:
            return
        with self.changed:
            self.closed = True
            self._pending.clear()
            self._ready.clear()
            self._get = _nothing  # and so no longer holds the model
            self.changed.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()


def _nothing(name: str, rows: Rows) -> Any:
    raise _lib.Closed("the prefetch loader is closed")


def _given(done: tuple[Any, Optional[BaseException]]) -> Any:
    if done[1] is not None:
        raise done[1]
    return done[0]


class PrefetchLoader:
    """Tensors of a plan while threads read and convert them. Each is handed out once: by :meth:`take`, or by iterating, in the order in which they are
    ready. What was handed out is the caller's; a loader keeps the model open until it is closed or forgotten."""

    def __init__(self, work: Work, as_errors: Callable[[], Any]):
        self._work, self._as_errors = work, as_errors
        weakref.finalize(self, work.drop, "loader").atexit = False

    def names(self) -> list[str]:
        """The names of the plan, in their order in the file."""
        return list(self._work.plan)

    def take(self, name: str) -> Any:
        """A tensor of the plan, or its rows. If a thread has begun to read it, this waits; otherwise this reads it."""
        with self._as_errors():
            return self._work.take(name)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        while True:
            with self._as_errors():
                pair = self._work.next()
            if pair is None:
                return
            yield pair
            del pair  # only the caller refers to the tensor

    def __len__(self) -> int:
        return len(self._work.plan)

    def close(self) -> None:
        """Ends the threads, each after the tensor that it reads, and frees the tensors that were not handed out."""
        self._work.close(wait=True)

    def __enter__(self) -> PrefetchLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tensorfs.PrefetchLoader of {len(self)} tensors, {len(self._work.left)} not handed out>"


def threads_of(threads: Optional[int], default: int) -> int:
    if threads is None:
        return default
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise _lib.Invalid(f"threads is {threads!r}: it has to be a number from 1 on")
    return threads
