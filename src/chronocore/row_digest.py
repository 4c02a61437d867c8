"""A digest of rows that depends on their values alone, not on how a file stores them."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from chronocore.provenance import ColumnDigests

__all__ = ["ROWS_METADATA", "RUN_METADATA", "RowDigest", "rows_digest"]

#: Key of the Parquet metadata under which an exported run carries its settings.
RUN_METADATA = b"chronocore.run"

#: Key of the Parquet metadata that binds the rows of an exported run to these settings.
ROWS_METADATA = b"chronocore.rows_sha256"


class RowDigest:
    """Takes rows as they come, some at a time, and says what they were in 64 characters.

    Parameters
    ----------
    rows : pyarrow.Schema
        Columns that count, by name and type; one that is missing changes the digest.

    Attributes
    ----------
    n_rows : int
    """

    def __init__(self, rows: pa.Schema) -> None:
        self._rows = rows
        self._digests = ColumnDigests()
        self.n_rows = 0

    def update(self, table: pa.Table) -> None:
        """Add rows.

        Raises
        ------
        pyarrow.ArrowException
            A column is of another type.
        """
        self.n_rows += len(table)
        there = [field for field in self._rows if field.name in table.column_names]
        columns = {field.name: table.column(field.name).cast(field.type) for field in there}
        self._digests.update(pa.table(columns))

    def hexdigest(self) -> str:
        """Return the digest of all rows so far."""
        return hashlib.sha256(b"".join(self._digests.metadata().values())).hexdigest()


def rows_digest(run: bytes, rows: RowDigest) -> bytes:
    """Return what an exported file says under :data:`ROWS_METADATA`.

    Parameters
    ----------
    run : bytes
        What it says under :data:`RUN_METADATA`.
    rows : RowDigest
        Of all its rows, in their order.
    """
    return hashlib.sha256(run + b"\0" + rows.hexdigest().encode()).hexdigest().encode()
