"""The index: a SQLite file of rows about logs. All SQL text lives in this folder.

Reading (`engine`, `queries`) uses the driver alone, since a cold read must not pay for importing
SQLAlchemy; `schema` and `migrate` are for builders.
"""
