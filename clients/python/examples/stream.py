# SPDX-License-Identifier: Apache-2.0
"""Prints a text as it comes, and what speculation did for it.

    python stream.py [HOST:PORT]
"""

import sys

from tandem_client import Client

with Client(*sys.argv[1:]) as client:
    with client.stream("The city was", max_tokens=60, temperature=0.8, seed=7) as stream:
        for delta in stream:
            print(delta.text, end="", flush=True)
        result = stream.result()

record = result.record
print(f"\n\n{result.usage.completion_tokens} tokens in {record.rounds} rounds, seed {result.started.seed}")
print(f"{record.accepted_tokens} of {record.draft_tokens} draft tokens accepted "
      f"(a token that was tested: {result.acceptance_rate:.0%}), exact: {record.exact}")
