#!/usr/bin/env python3
"""Distils a draft for a target of your own: a small Llama with the target's tokenizer.

    python3 -m venv venv && venv/bin/pip install -r demo/requirements.txt ./clients/python
    build/release/bin/tandem serve --target-model=TARGET &
    venv/bin/python demo/distill.py answers  --target=TARGET --work=WORK --prompts FILE...
    venv/bin/python demo/distill.py train    --target=TARGET --work=WORK --out=DRAFT
    venv/bin/python demo/distill.py evaluate --target=TARGET --draft=DRAFT --prompts FILE...
    build/release/bin/tandem serve --target-model=TARGET --draft-model=DRAFT

`answers` asks a running service, of any target that Tandem serves, and keeps in WORK what it
writes, with the probabilities of its most likely tokens. So the target computes each text once, and
`train` needs no more of it than its embedding. Both go on where they were interrupted. `train` uses
a GPU if there is one.

A file of --prompts is one of
  NAME.jsonl, NAME.jsonl.gz   a row has `turns`, `question`, `prompt` or `messages`
  NAME.txt, NAME.txt.xz       documents, parted by lines `<|endoftext|>`: passages become prompts
Every third prompt of a file is held out: never asked for training, and the only ones that
`evaluate` asks. --own-prompts=N: N prompts more that the target itself writes, as the user of its
chat template.
"""

import argparse
import functools
import json
import pathlib
import random
import sys
import time

import numpy as np
import torch
from transformers import AutoTokenizer

import draft_model
import prompts
import texts
from distillation import Batches, accepted_at, kept_tokens, loss_of
from training import Optimization, make_optimizers

WEIGHT_DECAY = 0.1  # of the layers' matrices
VALIDATION = 40  # every fortieth text of WORK is not trained on: the loss curve is of these


def read_config(target: pathlib.Path) -> dict:
    """The target's config.json."""
    file = target / "config.json"
    if not file.is_file():
        sys.exit(f"--target: {file} is missing; give the target's Hugging Face directory")
    return json.loads(file.read_text())


def load_tokenizer(target: pathlib.Path):
    """The target's tokenizer, with its chat template."""
    tokenizer = AutoTokenizer.from_pretrained(target)
    if not tokenizer.chat_template:
        sys.exit(f"--target: {target} has no chat template, by which prompts are asked")
    return tokenizer


# --- The target's answers -----------------------------------------------------------------------


def make_answers(args: argparse.Namespace) -> None:
    if not args.prompts and not args.own_prompts:
        sys.exit("nothing to ask: give --prompts=FILE..., --own-prompts=N or both")
    import answers  # the client of a service: training needs none

    sources = [prompts.split(prompts.read_prompts(file), held_out=False) for file in args.prompts]
    for number, source in enumerate(sources):
        random.Random(args.seed + number).shuffle(source)
    read_config(args.target)
    tokenizer = load_tokenizer(args.target)
    client = answers.Client(args.orchestrator)
    before = answers.user_turn(tokenizer)
    own = len(sources)
    sources.append([None] * args.own_prompts)

    def job(source: int, index: int, round: int):
        seed = args.seed * 1_000_003 + source * 100_003 + index * 7 + round
        messages = sources[source][index]
        if source == own:
            messages = answers.own_prompt(client, tokenizer, before, seed)
            if messages is None:
                return None
        ids = answers.chat_ids(tokenizer, messages)
        if len(ids) > args.context - 32:
            return None
        temperature = answers.TEMPERATURES[(index + round) % len(answers.TEMPERATURES)]
        most = min(args.max_tokens, args.context - len(ids))
        return answers.answer(client, ids, most, temperature, seed, source)

    order = list(prompts.in_turn(sources, len(answers.TEMPERATURES)))[: args.texts]
    jobs = [functools.partial(job, *place) for place in order]
    answers.gather(client, args.work / "answers", jobs, args.concurrency)


# --- Training -----------------------------------------------------------------------------------


def special_ids(target: pathlib.Path, config: dict) -> list[int]:
    """Special tokens, and those that end a text."""
    ends = config.get("eos_token_id")
    ids = set(ends if isinstance(ends, list) else [ends]) - {None}
    return sorted(ids | set(AutoTokenizer.from_pretrained(target).all_special_ids))


def new_draft(args: argparse.Namespace, config: dict, written: list) -> draft_model.Draft:
    vocabulary = config["vocab_size"]
    if not 0 < args.keep <= vocabulary:
        sys.exit(f"--keep={args.keep}: the target has {vocabulary} tokens; keep 1 to that many")
    kept = kept_tokens(written, vocabulary, args.keep, special_ids(args.target, config))
    shape = draft_model.Shape(args.hidden, args.layers, args.heads, args.feed_forward)
    draft = draft_model.Draft(shape, vocabulary, kept, config["max_position_embeddings"])
    draft.begin_with(draft_model.target_embedding(args.target))
    return draft


@torch.inference_mode()
def accepted_of(draft: draft_model.Draft, batches: Batches) -> float:
    """The mean of sum min(p, q) at temperature 1 over all texts."""
    draft.eval()
    total = places = 0
    for indices in batches.order(np.random.default_rng(0)):
        batch = batches.make(indices)
        count = len(batch.p)
        total += loss_of(draft(batch.ids, batch.at), batch, 0.0)[1].item() * count
        places += count
    draft.train()
    return total / places


def train(args: argparse.Namespace) -> None:
    config = read_config(args.target)
    written = texts.read_shards(args.work / "answers")
    if len(written) < 2:
        sys.exit(f"{args.work}/answers has no answers: run distill.py answers --work={args.work}")
    if args.hidden % args.heads:
        sys.exit(f"--hidden={args.hidden}: it must be a multiple of --heads={args.heads}")
    checkpoint = args.out.with_name(args.out.name + ".checkpoint")
    if args.out.exists() and not checkpoint.exists():
        sys.exit(f"--out: {args.out} is there already; name another directory, or remove it")
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draft = draft_model.load(args.start) if args.start else new_draft(args, config, written)
    draft.to(device).train()
    draft.dropout.p = args.dropout
    vocabulary = draft.config.vocab_size
    if vocabulary != config["vocab_size"]:
        sys.exit(f"--start: {vocabulary} tokens, but --target has {config['vocab_size']}")
    optimizers = make_optimizers(
        draft, args.learning_rate, args.muon_learning_rate, args.embedding_share, WEIGHT_DECAY
    )
    run = Optimization(draft, optimizers, args.steps, args.warmup, checkpoint)
    first, step, epoch = run.load(), 0, 0
    make = functools.partial(
        Batches,
        kept=draft.kept.cpu().numpy(),
        vocabulary=vocabulary,
        tokens=args.batch,
        device=device,
    )
    parameters = sum(p.numel() for p in draft.parameters())
    print(
        f"{parameters:,} parameters, {args.steps} steps, on {device}\n"
        "    step  epoch  answers   loss  accepted  of unseen texts  minutes left",
        flush=True,
    )
    begin, averages = time.monotonic(), None
    while step < args.steps:
        learned = make([text for i, text in enumerate(written) if i % VALIDATION])
        unseen = make(written[::VALIDATION])
        for indices in learned.order(np.random.default_rng([args.seed, epoch])):
            if step == args.steps:
                break
            step += 1
            if step <= first:
                continue
            torch.manual_seed(args.seed * 1_000_003 + step)  # of dropout, also after a break
            batch = learned.make(indices)
            loss, accepted = loss_of(draft(batch.ids, batch.at), batch, args.variation)
            run.step(step - 1, loss)
            values = np.array([loss.item(), accepted.item()])
            averages = values if averages is None else 0.95 * averages + 0.05 * values
            if step % args.report == 0 or step == args.steps:
                left = (time.monotonic() - begin) / (step - first) * (args.steps - step) / 60
                print(
                    f"{step:8} {epoch:6} {len(written):8} {averages[0]:6.3f} {averages[1]:9.3f} "
                    f"{accepted_of(draft, unseen):16.3f} {left:13.1f}",
                    flush=True,
                )
                run.save(step)
        epoch += 1
        written = texts.read_shards(args.work / "answers")  # with what came meanwhile
    draft_model.save(draft, args.out, config, args.target.name)
    print(f"saved in {args.out}")
    run.finish()


# --- Evaluation ---------------------------------------------------------------------------------


@torch.inference_mode()
def evaluate(args: argparse.Namespace) -> None:
    import answers

    if not args.prompts:
        sys.exit("nothing to ask: give --prompts=FILE...")
    files = {file.name: prompts.split(prompts.read_prompts(file), True) for file in args.prompts}
    read_config(args.target)
    tokenizer = load_tokenizer(args.target)
    draft = draft_model.load(args.draft).eval()
    batches = Batches([], draft.kept.numpy(), draft.config.vocab_size, 0, "cpu")
    client = answers.Client(args.orchestrator)
    temperatures = [float(t) for t in args.temperatures.split(",")]
    jobs, cells = [], []  # all are asked at once: a service answers many together
    for name, held_out in files.items():
        for messages in prompts.spread(held_out, args.count):
            ids = answers.chat_ids(tokenizer, messages)
            if len(ids) > args.context - 32:
                continue
            for t in temperatures:
                ask = functools.partial(answers.answer, client, ids, args.max_tokens, t)
                jobs.append(functools.partial(ask, seed=args.seed, source=0))
                cells.append((name, t))
    accepted = {}
    for (name, t), text in zip(cells, answers.all_of(jobs, args.concurrency)):
        batches.texts = [text]
        batch = batches.make([0])
        rows = torch.from_numpy(batches.row_of[text.top])
        values = accepted_at(draft(batch.ids, batch.at), text, rows, t)
        accepted.setdefault((name, t), []).append(values)
    print(f"{'prompts':27}" + "".join(f"   T = {t:<4}" for t in temperatures))
    for name in files:
        means = [torch.cat(accepted[name, t]).mean().item() for t in temperatures]
        print(f"{name:27}" + "".join(f"{mean:11.3f}" for mean in means))


# --- Command line -------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of texts, weights and batches")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run, about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=about,
            description=about,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        sub.set_defaults(run=run)
        folder(sub, "--target", "the target's Hugging Face directory")
        return sub

    def folder(sub: argparse.ArgumentParser, name: str, about: str, required=True) -> None:
        sub.add_argument(name, type=pathlib.Path, required=required, metavar="DIR", help=about)

    def asking(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--orchestrator", default="127.0.0.1:50050", help="of `tandem serve`")
        sub.add_argument(
            "--prompts", type=pathlib.Path, nargs="*", default=[], metavar="FILE", help="see above"
        )
        sub.add_argument("--concurrency", type=int, default=32, help="requests at once")
        sub.add_argument("--context", type=int, default=512, help="tokens of prompt and answer")
        sub.add_argument("--max-tokens", type=int, default=256, help="of an answer")

    sub = command("answers", make_answers, "let the target answer prompts")
    folder(sub, "--work", "where the answers go")
    asking(sub)
    sub.add_argument("--own-prompts", type=int, default=0, help="that the target writes itself")
    sub.add_argument(
        "--texts", type=int, default=6000, help="answers in all, three a prompt at most"
    )

    sub = command("train", train, "distil a draft from the answers")
    folder(sub, "--work", "what `answers` made")
    folder(sub, "--out", "where the draft goes")
    folder(sub, "--start", "a draft of this target to train on", required=False)
    sub.add_argument("--steps", type=int, default=1500)
    sub.add_argument("--batch", type=int, default=4096, help="tokens per step, padding included")
    sub.add_argument("--warmup", type=int, default=50, help="steps")
    sub.add_argument("--learning-rate", type=float, default=4e-3, help="AdamW's, at its peak")
    sub.add_argument("--muon-learning-rate", type=float, default=0.02, help="at its peak")
    sub.add_argument("--variation", type=float, default=1.0, help="share of total variation")
    sub.add_argument(
        "--embedding-share",
        type=float,
        default=0.1,
        help="of the learning rate, for the embedding: with more of it, and without dropout, a "
        "draft learns faster, and learns few texts by heart",
    )
    sub.add_argument(
        "--dropout", type=float, default=0.1, help="of embedding and last hidden state"
    )
    sub.add_argument("--report", type=int, default=50, help="steps between two lines")
    shape = draft_model.Shape()
    sub.add_argument("--keep", type=int, default=8192, help="tokens that the draft may propose")
    sub.add_argument("--hidden", type=int, default=shape.hidden)
    sub.add_argument("--layers", type=int, default=shape.layers)
    sub.add_argument("--heads", type=int, default=shape.heads)
    sub.add_argument("--feed-forward", type=int, default=shape.feed_forward)

    sub = command("evaluate", evaluate, "how much of held-out answers the draft has right")
    folder(sub, "--draft", "that `train` made")
    asking(sub)
    sub.add_argument("--count", type=int, default=16, help="prompts of each file")
    sub.add_argument("--temperatures", default="0,0.7,1", metavar="T,T", help="of the answers")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    args.run(args)


if __name__ == "__main__":
    main()
