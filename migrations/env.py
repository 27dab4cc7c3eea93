"""Alembic's environment: the caller hands over a connection, see evalindex/database/migrate.py."""

from alembic import context

from evalindex.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="migration",
)
with context.begin_transaction():
    context.run_migrations()
