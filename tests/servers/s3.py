"""Servers that speak S3: SeaweedFS, and moto's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import BUCKET, Server, free_port, program, running

_KEYS = {
    "AWS_ACCESS_KEY_ID": "testkey",
    "AWS_SECRET_ACCESS_KEY": "testsecret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def client(port: int) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=_KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=_KEYS["AWS_SECRET_ACCESS_KEY"],
        region_name=_KEYS["AWS_REGION"],
        config=Config(retries={"max_attempts": 1}, connect_timeout=2, max_pool_connections=32),
    )


def _server(name: str, port: int) -> Server:
    s3 = client(port)

    def key(url: str) -> str:
        return url.removeprefix(f"s3://{BUCKET}/")

    return Server(
        name,
        f"s3://{BUCKET}",
        {**_KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"},
        lambda url, data: s3.put_object(Bucket=BUCKET, Key=key(url), Body=data),
        lambda url: s3.delete_object(Bucket=BUCKET, Key=key(url)),
        port,
    )


def _make_bucket(port: int) -> None:
    """Ready is what takes an object and gives it back."""
    s3 = client(port)
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")
    assert s3.get_object(Bucket=BUCKET, Key="ready")["Body"].read() == b"yes"
    s3.delete_object(Bucket=BUCKET, Key="ready")


@contextmanager
def seaweed(folder: Path) -> Iterator[Server]:
    while True:  # each port takes one that is 10,000 above, too
        ports = [free_port() for _ in range(5)]
        if len({p + d for p in ports for d in (0, 10_000)}) == 10 and max(ports) < 55_000:
            break
    names = ("s3.port", "master.port", "filer.port", "volume.port", "admin.port")
    command = [
        program("weed"),
        "-logtostderr=true",
        "mini",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-admin.ui=false",
        "-webdav=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    ]
    with running(command, lambda: _make_bucket(ports[0]), **_KEYS):
        yield _server("seaweed", ports[0])


@contextmanager
def moto(_folder: Path) -> Iterator[Server]:
    port = free_port()
    command = [program("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with running(command, lambda: _make_bucket(port)):
        yield _server("moto", port)
