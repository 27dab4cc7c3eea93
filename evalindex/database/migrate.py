"""Bring an index to the newest schema. Only builders do that; it imports SQLAlchemy and Alembic."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, event
from sqlalchemy.pool import StaticPool

if TYPE_CHECKING:
    from sqlalchemy import Connection

_PACKAGE = Path(__file__).resolve().parent.parent


def upgrade(connection: sqlite3.Connection, revision: str = "head") -> None:
    """Run the missing migrations in one transaction: all of them or none.

    Waits for another builder that does the same, and then finds nothing left to do.
    """
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)

    # The driver is in autocommit mode; without an explicit BEGIN every statement of a migration
    # would commit by itself and a failed one would leave half a schema.
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    config = Config()
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    with engine.begin() as transaction:
        config.attributes["connection"] = transaction
        command.upgrade(config, revision)


def _migrations() -> Path:
    """Inside the package where it was installed from a wheel, beside it in a checkout."""
    installed = _PACKAGE / "migrations"
    return installed if installed.is_dir() else _PACKAGE.parent / "migrations"
