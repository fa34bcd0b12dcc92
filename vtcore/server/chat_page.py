"""The chat page at `/`: static files of this package. What it shows it asks the other routes for."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

router = APIRouter(include_in_schema=False)
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
FILES = {f.name: f.read_bytes() for f in (files("vtcore.server") / "page").iterdir() if f.is_file()}
PATHS = ("/", *(f"/page/{name}" for name in FILES))
HEADERS = {
    # Nothing but the package's own files, even where a model writes markup that a fault of the page let through.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def page() -> Response:
    """The page."""
    return await file("index.html")


@router.get("/page/{name}")
async def file(name: str) -> Response:
    """One of its files."""
    if name not in FILES:
        raise HTTPException(404)
    return Response(FILES[name], media_type=TYPES[name.rpartition(".")[2]], headers=HEADERS)
