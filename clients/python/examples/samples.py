# SPDX-License-Identifier: Apache-2.0
"""Several requests at once, of several texts each, with asyncio. Prints each text with its mean log
probability.

    python samples.py [HOST:PORT]
"""

import asyncio
import sys

from tandem_client import AsyncClient


async def best_of(client, prompt):
    result = await client.generate(prompt, samples=4, max_tokens=24, temperature=1.0, seed=1, logprobs=0)
    scored = [(sum(token.logprob for token in sample.logprobs) / len(sample.logprobs), sample.text)
              for sample in result.samples]
    return prompt, sorted(scored, reverse=True)


async def main():
    async with AsyncClient(*sys.argv[1:]) as client:
        prompts = ["The city was", "Once upon a time", "In the north"]
        for prompt, scored in await asyncio.gather(*(best_of(client, prompt) for prompt in prompts)):
            print(f"{prompt} …")
            for score, text in scored:
                print(f"  {score:6.2f}  {text!r}")


asyncio.run(main())
