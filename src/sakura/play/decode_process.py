"""An engine in a process of its own: the interpreter lock of the player stays with the executor.

Frames on the child's stdin and stdout: u32 length of a JSON head, u32 length of a body, head, body.
The first frame brings manifest and codec profile; every other one is a call of `advance`. The child
ends when its stdin does, so it cannot outlive its parent.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

import numpy as np

from sakura.codec import CodecProfile, profile_from_bytes
from sakura.errors import PlayError
from sakura.format import Manifest
from sakura.format.container import decode_manifest, encode_manifest
from sakura.play.engine import Key, LocalEngine, Outcome, Piece

_FRAME = struct.Struct("<II")
_STOP_S = 5.0


class ProcessEngine:
    """See `Engine`; ready for use when constructed."""

    def __init__(self, manifest: Manifest, profile: CodecProfile) -> None:
        geometry = manifest.geometry
        num_tokens = manifest.token_mask.num_cached
        self._shape = 2, num_tokens, geometry.num_heads, geometry.head_dim
        search_path = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sakura.play.decode_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": search_path, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the parent only; the pipe tells the child
        )
        parts = encode_manifest(manifest), profile.to_bytes()
        try:
            self._ask({"lengths": [len(part) for part in parts]}, b"".join(parts))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def prepare(self, is_needed: Callable[[], bool]) -> None:
        """The child did that before it was ready."""

    def advance(self, key: Key, pieces: Sequence[Piece]) -> Outcome:
        """See `Engine.advance`. Raises PlayError when the child is gone."""
        places = [(piece.level, piece.index, len(piece.data)) for piece in pieces]
        body = b"".join(piece.data for piece in pieces)
        head, values = self._ask({"key": key, "pieces": places}, body)
        return Outcome(
            level=head["level"],
            values=np.frombuffer(values, np.float32).reshape(self._shape) if values else None,
            damaged=tuple((level, index, reason) for level, index, reason in head["damaged"]),
            refused=head["refused"],
        )

    def close(self) -> None:
        """End the child: by closing its pipe, then by killing it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # the child died with a frame of ours unread
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytearray]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            _write(self._process.stdin, head, body)
            return _read(self._process.stdout)
        except (EOFError, OSError, ValueError) as error:
            raise PlayError("the decode process is gone") from error


def main() -> None:
    """The child: answer frames until stdin ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    try:
        head, body = _read(source)
        length, _ = head["lengths"]
        manifest = decode_manifest(bytes(body[:length]))
        engine = LocalEngine(manifest, profile_from_bytes(bytes(body[length:])))
        engine.prepare(lambda: True)
        _write(sink, {}, b"")
        while True:
            head, body = _read(source)
            _write(sink, *_answer(engine, head, body))
    except (EOFError, BrokenPipeError):
        return


def _answer(
    engine: LocalEngine, head: dict[str, Any], body: bytearray
) -> tuple[dict[str, Any], bytes]:
    pieces, start = [], 0
    for level, index, length in head["pieces"]:
        pieces.append(Piece(level, index, bytes(body[start : start + length])))
        start += length
    block, component = head["key"]
    outcome = engine.advance((block, component), pieces)
    answer = {"level": outcome.level, "damaged": outcome.damaged, "refused": outcome.refused}
    return answer, b"" if outcome.values is None else outcome.values.tobytes()


def _write(file: IO[bytes], head: dict[str, Any], body: bytes) -> None:
    text = json.dumps(head).encode()
    file.write(_FRAME.pack(len(text), len(body)) + text)
    file.write(body)
    file.flush()


def _read(file: IO[bytes]) -> tuple[dict[str, Any], bytearray]:
    head_length, body_length = _FRAME.unpack(_exactly(file, _FRAME.size))
    head: dict[str, Any] = json.loads(_exactly(file, head_length))
    return head, _exactly(file, body_length)


def _exactly(file: IO[bytes], num_bytes: int) -> bytearray:
    data = bytearray(num_bytes)
    view, filled = memoryview(data), 0
    while filled < num_bytes:
        piece = file.read(num_bytes - filled)
        if not piece:
            raise EOFError
        view[filled : filled + len(piece)] = piece
        filled += len(piece)
    return data


if __name__ == "__main__":
    main()
