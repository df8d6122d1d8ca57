# SPDX-License-Identifier: Apache-2.0
"""A text that goes on when its orchestrator is lost. Try it: end one of them while the text comes.

    python resume.py ipv4:127.0.0.1:50050,127.0.0.1:50060

The client goes on by itself. It gives up after `patience` seconds without any progress. What it has
by then is in the error, and the text can still go on later, at any orchestrator of the same model.
"""

import sys
import time

from tandem_client import Client, Unavailable

options = {"max_tokens": 400, "temperature": 0.8, "seed": 7, "ignore_eos": True}
with Client(*sys.argv[1:], patience=5.0) as client:
    stream = client.stream("The city was", **options)
    try:
        for delta in stream:
            print(delta.text, end="", flush=True)
        result = stream.result()
    except Unavailable as error:
        if error.partial is None:
            sys.exit(f"{error}")
        print("\n[no orchestrator for 5 s; one more try in 5 s]", file=sys.stderr)
        time.sleep(5)
        result = client.generate("The city was", **options, output_prefix_ids=error.partial.token_ids)
        print(result.text, end="")
print(f"\n\nresumed {result.resumed} times", file=sys.stderr)
