"""A helper process that lives exactly as long as its parent wants, or less.

The parent talks JSON lines over the child's stdin and stdout. The kernel closes that pipe however
the parent dies, so a child that leaves on end-of-file is never an orphan.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from typing import Any, Self

from sakura.errors import StoreError

_STOP_S = 5.0


class ChildProcess:
    """`python -m MODULE`, given `config` as its first line; its first answer is `ready`."""

    def __init__(self, module: str, config: dict[str, Any]) -> None:
        self._module = module
        search_path = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": search_path},
            start_new_session=True,  # Ctrl-C reaches the parent only; the pipe tells the child
        )
        try:
            self.ready = self.ask(config)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send one line and wait for one line. Raises StoreError where the child refuses or is
        dead.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise StoreError("the helper process is gone", where=self._module) from error
        line = self._process.stdout.readline()
        if not line:
            raise StoreError("the helper process ended", where=self._module)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StoreError(answer["error"], where=self._module)
        return answer

    def close(self) -> None:
        """End the child: by closing its pipe, then by killing it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # the child died with a line of ours unread
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ChildHost(ABC):
    """Context manager of one child process; a subclass says how to start it."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None

    @abstractmethod
    def _start(self) -> ChildProcess:
        """Start the child."""

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._running.pid

    @property
    def _running(self) -> ChildProcess:
        assert self._child is not None, f"{type(self).__name__} is used inside its with block"
        return self._child

    def __enter__(self) -> Self:
        self._child = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()
