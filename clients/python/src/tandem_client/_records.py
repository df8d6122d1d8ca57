"""The acceptance record of a request that took several calls."""

from __future__ import annotations

from typing import Any, Dict, Sequence

from tandem_client import v1 as pb


def total(records: Sequence[pb.AcceptanceRecord], started: pb.Started) -> pb.AcceptanceRecord:
    """Adds up what they count. Of a single one: that one."""
    if len(records) == 1:
        return records[0]
    total = pb.AcceptanceRecord(rule=started.rule, exact=started.exact)
    causes: Dict[str, int] = {}
    for record in records:
        for field, value in record.ListFields():
            if field.name in ("rule", "exact"):
                continue
            if field.name == "accepted_histogram":
                _add_list(total.accepted_histogram, value)
            elif field.name == "rounds_without_draft":
                for one in value:
                    causes[one.cause] = causes.get(one.cause, 0) + one.rounds
            else:
                setattr(total, field.name, getattr(total, field.name) + value)
    for cause, rounds in causes.items():
        total.rounds_without_draft.add(cause=cause, rounds=rounds)
    return total


def _add_list(to: Any, more: Sequence[int]) -> None:
    to.extend([0] * (len(more) - len(to)))
    for i, value in enumerate(more):
        to[i] += value
