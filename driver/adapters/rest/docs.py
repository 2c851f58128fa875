"""`/docs`: the REST interface in a browser, all of it from this driver: there may be no way out."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

ASSETS = "/docs-assets"


def install(app: FastAPI) -> None:
    """Add the page and what it loads."""
    folder = str(files("fastapi_offline") / "static")
    app.mount(ASSETS, StaticFiles(directory=folder), name="docs-assets")
    app.add_api_route("/docs", _page, include_in_schema=False, response_class=HTMLResponse)


def _page() -> HTMLResponse:
    """Addresses are relative, so that it can be seen through a proxy or a forwarded port, too."""
    below = ASSETS.removeprefix("/")
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Holdfast driver",
        swagger_js_url=f"{below}/swagger-ui-bundle.js",
        swagger_css_url=f"{below}/swagger-ui.css",
        swagger_favicon_url=f"{below}/favicon.png",
    )
