"""AWS profiles, SSO and roles, which obstore does not know: through boto3 (the extra `aws`)."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any

from evalindex.errors import MissingExtra, StoreDenied

#: Credentials are asked for again after this time; boto3 renews those that are about to end.
_LIFETIME = timedelta(minutes=10)


def session_options(url: str) -> dict[str, Any]:
    """Options for obstore's store: credentials, region and endpoint as boto3 finds them.

    Raises `StoreDenied` if there are no credentials, `MissingExtra` if there is something that
    only boto3 can read. Without boto3 obstore looks for a web identity, a container's or a
    machine's role.
    """
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError:
        files = ("~/.aws/credentials", "~/.aws/config")
        if os.environ.get("AWS_PROFILE") or any(
            map(os.path.exists, map(os.path.expanduser, files))
        ):
            raise MissingExtra(
                "AWS profiles need boto3", log=url, hint='pip install "evalindex[aws]"'
            ) from None
        return {}
    try:
        session = boto3.Session()
        credentials = session.get_credentials()
        endpoint = session.client("s3").meta.endpoint_url
    except BotoCoreError as error:
        raise StoreDenied(str(error), log=url, hint="look at ~/.aws and AWS_PROFILE") from None
    if credentials is None:
        raise StoreDenied(
            "no AWS credentials were found",
            log=url,
            hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; "
            "for a public bucket AWS_SKIP_SIGNATURE=true",
        )

    def provide() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(timezone.utc) + _LIFETIME,
        }

    options: dict[str, Any] = {"credential_provider": provide}
    if session.region_name:
        options["region"] = session.region_name
    if not endpoint.endswith(".amazonaws.com"):
        options["endpoint"] = endpoint
    return options
