# SPDX-License-Identifier: Apache-2.0
"""The acceptance record of a request that took several calls."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Sequence

from tandem_client import v1 as pb


def total(records: Sequence[pb.AcceptanceRecord], started: pb.Started) -> pb.AcceptanceRecord:
    """Adds up what they count. Of a single one: that one."""
    if len(records) == 1:
        return records[0]
    total = pb.AcceptanceRecord(rule=started.rule, exact=started.exact)
    causes: Dict[str, int] = {}
    prepared: Dict[str, int] = {}
    zero_causes: Dict[str, int] = {}
    for record in records:
        for field, value in record.ListFields():
            if field.name in ("rule", "exact"):
                continue
            if field.name == "accepted_histogram":
                _add_list(total.accepted_histogram, value)
            elif field.name == "rounds_without_draft":
                _add_causes(causes, value)
            elif field.name == "prepared_rounds":
                _add_causes(prepared, value)
            elif field.name == "length":
                _add_list(total.length.chosen_histogram, value.chosen_histogram)
                _add_causes(zero_causes, value.zero_rounds)
                # Estimates are not counts: the latest one stands.
                for name in ("alpha", "draft_token_us", "min_confidence"):
                    if value.HasField(name):
                        setattr(total.length, name, getattr(value, name))
            elif field.name == "drafters":
                _add_drafters(total.drafters, value)
            else:
                setattr(total, field.name, getattr(total, field.name) + value)
    for cause, rounds in causes.items():
        total.rounds_without_draft.add(cause=cause, rounds=rounds)
    for cause, rounds in prepared.items():
        total.prepared_rounds.add(cause=cause, rounds=rounds)
    for cause, rounds in zero_causes.items():
        total.length.zero_rounds.add(cause=cause, rounds=rounds)
    return total


def _add_causes(to: Dict[str, int], more: Iterable[pb.CausedRounds]) -> None:
    for one in more:
        to[one.cause] = to.get(one.cause, 0) + one.rounds


def _add_drafters(to: Any, more: Iterable[pb.DrafterRecord]) -> None:
    known = {one.drafter: one for one in to}
    for one in more:
        if one.drafter not in known:
            known[one.drafter] = to.add(drafter=one.drafter)
        sum_ = known[one.drafter]
        for name in ("rounds", "drafted_rounds", "draft_tokens", "accepted_tokens", "tokens"):
            setattr(sum_, name, getattr(sum_, name) + getattr(one, name))
        reasons: Dict[str, int] = {}
        _add_causes(reasons, sum_.reasons)
        _add_causes(reasons, one.reasons)
        del sum_.reasons[:]
        for cause, rounds in reasons.items():
            sum_.reasons.add(cause=cause, rounds=rounds)


def _add_list(to: Any, more: Sequence[int]) -> None:
    to.extend([0] * (len(more) - len(to)))
    for i, value in enumerate(more):
        to[i] += value
