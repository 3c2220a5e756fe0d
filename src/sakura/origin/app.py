"""The origin as an ASGI application: a read-only folder of bundles, byte ranges, and nothing else.

Any static server with byte ranges can take its place; this one adds a list of templates and
metrics.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sakura.errors import NotFoundError
from sakura.origin.conditions import Answer, answer_for
from sakura.origin.folder import BUNDLE_SUFFIX, Folder, OpenObject
from sakura.origin.metrics import Metrics
from sakura.store.base import PIECE_BYTES
from sakura.store.files import file_etag

MEDIA_TYPE = "application/octet-stream"
YEAR_S = 365 * 24 * 3600
_METHODS = "GET, HEAD, OPTIONS"
_COMMON_HEADERS = {
    "Access-Control-Allow-Origin": "*",  # on every answer: a cache may serve it to any page
    "Access-Control-Expose-Headers": "Accept-Ranges, Content-Length, Content-Range, ETag",
    "X-Content-Type-Options": "nosniff",
}
_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": _METHODS,
    "Access-Control-Allow-Headers": "Range, If-Match, If-None-Match, If-Range",
    "Access-Control-Max-Age": "86400",
    "Allow": _METHODS,
}


def create_app(root: str | Path, max_age_s: int = YEAR_S) -> ASGIApp:
    """The origin over folder `root`.

    Args:
        root: the store folder.
        max_age_s: how long caches keep an object; with the default, publish changes under a new
            name.
    """
    metrics = Metrics()
    routes = _Routes(Folder(root), metrics, max_age_s)
    table = [
        Route("/healthz", routes.health),
        Route("/metrics", routes.metrics_text),
        Route("/v1/templates", routes.templates),
        Route("/{name:path}", routes.get_object),
    ]
    return _Edge(Starlette(routes=table), metrics)


@dataclass(frozen=True, slots=True)
class _Routes:
    folder: Folder
    metrics: Metrics
    max_age_s: int

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})

    async def metrics_text(self, _request: Request) -> Response:
        return PlainTextResponse(self.metrics.render(), headers={"Cache-Control": "no-store"})

    async def templates(self, _request: Request) -> Response:
        found = [
            {
                "name": name.removesuffix(BUNDLE_SUFFIX),
                "object": name,
                "num_bytes": status.st_size,
                "etag": file_etag(status),
            }
            for name, status in self.folder.bundles()
        ]
        return JSONResponse({"templates": found}, headers={"Cache-Control": "no-cache"})

    async def get_object(self, request: Request) -> Response:
        try:
            found = self.folder.open(request.path_params["name"])
        except NotFoundError:
            headers = {"Cache-Control": "no-store"}
            return PlainTextResponse("no such object\n", status_code=404, headers=headers)
        is_head = request.method == "HEAD"
        answer = answer_for(request.headers, found.etag, found.num_bytes, is_head)
        headers = self._headers(answer, found)
        if is_head or answer.start == answer.stop:
            found.file.close()
            return Response(status_code=answer.status, headers=headers, media_type=MEDIA_TYPE)
        return StreamingResponse(
            _pieces(found.file, answer),
            answer.status,
            headers,
            MEDIA_TYPE,
            BackgroundTask(found.file.close),  # runs when the client has left early, too
        )

    def _headers(self, answer: Answer, found: OpenObject) -> dict[str, str]:
        headers = {"Accept-Ranges": "bytes", "ETag": found.etag}
        if answer.status in (200, 206):
            headers["Content-Length"] = str(answer.stop - answer.start)
        if answer.status in (200, 206, 304):
            headers["Cache-Control"] = f"public, max-age={self.max_age_s}, immutable"
        if answer.status == 206:
            held = f"{answer.start}-{answer.stop - 1}"
            headers["Content-Range"] = f"bytes {held}/{found.num_bytes}"
        if answer.status == 416:
            headers["Content-Range"] = f"bytes */{found.num_bytes}"
        return headers


async def _pieces(file: FileIO, answer: Answer) -> AsyncIterator[bytes]:
    """Small pieces: what is already handed to the socket cannot be recalled when a client leaves.

    Ends early where the file shrank; the server then closes the connection, a short read there.
    """
    with file:
        file.seek(answer.start)
        num_left = answer.stop - answer.start
        while num_left > 0 and (piece := file.read(min(PIECE_BYTES, num_left))):
            num_left -= len(piece)
            yield piece


class _Edge:
    """Around the routes: common headers, preflight, refused methods, counters."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count(method, message["status"])
                message["headers"].extend(
                    (name.lower().encode(), value.encode())
                    for name, value in _COMMON_HEADERS.items()
                )
            elif message["type"] == "http.response.body":
                self._metrics.body_bytes += len(message.get("body", b""))
            await send(message)

        self._metrics.num_in_flight += 1
        try:
            await self._answer(method)(scope, receive, send_counted)
        finally:
            self._metrics.num_in_flight -= 1

    def _answer(self, method: str) -> ASGIApp:
        if method in ("GET", "HEAD"):
            return self._app
        if method == "OPTIONS":
            return Response(status_code=204, headers=_PREFLIGHT_HEADERS)
        return PlainTextResponse("read only\n", status_code=405, headers={"Allow": _METHODS})
