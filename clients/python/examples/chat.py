# SPDX-License-Identifier: Apache-2.0
"""A conversation of three turns. Each answer goes back with the next question.

    python chat.py [HOST:PORT]
"""

import sys

from tandem_client import Client, InvalidRequest

messages = [{"role": "system", "content": "You are brief."}]
with Client(*sys.argv[1:]) as client:
    for question in ("Where was the city?", "And who lived there?", "What did they eat?"):
        messages.append({"role": "user", "content": question})
        print(f"> {question}")
        try:
            # The turns begin alike: within a scope, what they share is computed once.
            answer = client.generate(messages, max_tokens=40, cache_scope="example")
        except InvalidRequest as error:
            sys.exit(f"{error}")  # as of a model without a chat template
        print(f"{answer.text}\n")
        messages.append(answer.samples[0].message)
