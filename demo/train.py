#!/usr/bin/env python3
"""Makes the demo pair: a tokenizer, a small target model, and a smaller draft distilled from it.

    python3 -m venv venv && venv/bin/pip install -r demo/requirements.txt
    venv/bin/python demo/train.py prepare  --corpus CORPUS --work WORK
    venv/bin/python demo/train.py target   --work WORK --out WORK/small
    venv/bin/python demo/train.py draft    --work WORK --teacher WORK/small --out WORK/first
    venv/bin/python demo/train.py grow     --work WORK --start WORK/small --out WORK/target
    venv/bin/python demo/train.py refine   --work WORK --teacher WORK/target --start WORK/first \
        --out WORK/draft
    venv/bin/python demo/train.py evaluate --corpus CORPUS --target WORK/target --draft WORK/draft
    venv/bin/python demo/train.py sample   --target WORK/target --prompt "Once upon a time"

CORPUS is a folder of UTF-8 texts NAME_train.txt.xz and NAME_valid.txt.xz, in which documents are
parted by lines `<|endoftext|>`. WORK receives tokenizer.json, train.bin and valid.bin.

The defaults are the recipe of the weights in demo/target and demo/draft: see demo/README.md. Those
were trained against a clock (70, 14, 76 and 22 minutes on two cores); here the same schedules run
over the number of steps that fitted into it, so that a run can be repeated: same seed, same
machine, same weights. An interrupted run goes on from its last checkpoint, OUT.checkpoint.
`--steps`, `--documents` and `--batch` make a run small enough for a try.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Iterator

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from prompts import END_OF_TEXT, read_documents as documents_of
from training import Optimization, make_optimizers

# END_OF_TEXT has id 0, ends every document, and stands at no beginning.
# The models know no conversations. They go on where a message ends, as in one text.
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'assistant' and not loop.first %}{{ '\\n\\n' }}{% endif %}"
    "{{ message.content }}{% endfor %}"
)
VOCABULARY = 4096
CONTEXT = 256  # tokens a model sees at once in training
POSITIONS = 1024  # tokens it accepts afterwards


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A model's shape and how it is trained."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    steps: int  # of batch x CONTEXT tokens
    learning_rate: float  # AdamW's, at its peak
    batch: int = 16
    warmup: int = 100  # steps
    muon_learning_rate: float = 0.02  # at its peak; follows the same schedule
    distillation: float = (
        0.0  # share of KL(teacher || model) in the loss; the rest is cross-entropy
    )
    variation: float = 0.0  # weight of the total variation distance to the teacher, added


TARGET = Recipe(hidden=256, layers=8, heads=4, feed_forward=688, steps=2905, learning_rate=3e-3)
GROWN = Recipe(
    hidden=256,
    layers=16,
    heads=4,
    feed_forward=1024,
    steps=690,
    learning_rate=1.5e-3,
    warmup=50,
    muon_learning_rate=0.01,
)
DRAFT = Recipe(
    hidden=128,
    layers=2,
    heads=4,
    feed_forward=352,
    steps=1196,
    learning_rate=4e-3,
    distillation=0.9,
)
REFINED_DRAFT = dataclasses.replace(
    DRAFT, steps=270, learning_rate=2e-3, muon_learning_rate=0.01, variation=1.0
)


# --- Data ---------------------------------------------------------------------------------------


def read_documents(corpus: pathlib.Path, split: str, most: int | None = None) -> list[str]:
    """All documents of a split ("train" or "valid"), the first `most` of each file."""
    files = sorted(corpus.glob(f"*_{split}.txt.xz"))
    if not files:
        sys.exit(f"{corpus}: no *_{split}.txt.xz in it")
    documents = []
    for file in files:
        documents += documents_of(file)[:most]
    return documents


def train_tokenizer(documents: list[str]) -> tokenizers.Tokenizer:
    """Byte-level BPE: every text has ids, and every sequence of ids has bytes."""
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=byte_level.alphabet(),
    )
    # A part of each document, so that a few long books do not make the vocabulary.
    tokenizer.train_from_iterator((document[:400_000] for document in documents), trainer)
    return tokenizer


def encode(tokenizer: tokenizers.Tokenizer, documents: list[str]) -> np.ndarray:
    """The ids of all documents in one row, END_OF_TEXT after each."""
    part = 20_000  # characters encoded at once: long documents would be slow in one piece
    end = tokenizer.token_to_id(END_OF_TEXT)
    rows = []
    for place, document in enumerate(documents):
        parts = [document[i : i + part] for i in range(0, len(document), part)]
        ids = [id for encoding in tokenizer.encode_batch(parts) for id in encoding.ids]
        rows.append(np.array(ids + [end], dtype=np.uint16))
        if place % 100 == 99:
            print(f"  {place + 1} of {len(documents)} documents", flush=True)
    return np.concatenate(rows)


def prepare(args: argparse.Namespace) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    print("reading", flush=True)
    train = read_documents(args.corpus, "train", args.documents)
    valid = read_documents(args.corpus, "valid", args.documents)
    if args.tokenizer:
        tokenizer = tokenizers.Tokenizer.from_file(str(args.tokenizer))
    else:
        print(f"training the tokenizer on {len(train)} documents", flush=True)
        tokenizer = train_tokenizer(train)
    tokenizer.save(str(args.work / "tokenizer.json"))
    for name, documents in (("valid", valid), ("train", train)):
        ids = encode(tokenizer, documents)
        ids.tofile(args.work / f"{name}.bin")
        print(f"{name}: {len(ids):,} tokens of {len(documents)} documents", flush=True)


# --- Training -----------------------------------------------------------------------------------


def make_model(recipe: Recipe) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.feed_forward,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=POSITIONS,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def load_model(folder: pathlib.Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def random_windows(
    ids: np.ndarray, count: int, random: np.random.Generator
) -> Iterator[torch.Tensor]:
    """Endless batches [count, CONTEXT + 1] of pieces from anywhere in the text."""
    while True:
        starts = random.integers(0, len(ids) - CONTEXT - 1, count)
        windows = np.stack([ids[start : start + CONTEXT + 1] for start in starts])
        yield torch.from_numpy(windows.astype(np.int64))


def loss_of(
    model: LlamaForCausalLM,
    teacher: LlamaForCausalLM | None,
    windows: torch.Tensor,
    distillation: float,
    variation: float = 0.0,
) -> tuple[torch.Tensor, float]:
    """The loss to go down, and its cross-entropy part in nats per token."""
    inputs, answers = windows[:, :-1], windows[:, 1:]
    logits = model(inputs, use_cache=False).logits.flatten(0, 1)
    cross_entropy = F.cross_entropy(logits, answers.flatten())
    if teacher is None:
        return cross_entropy, cross_entropy.item()
    with torch.no_grad():
        wanted = teacher(inputs, use_cache=False).logits.flatten(0, 1).log_softmax(-1)
    found = logits.log_softmax(-1)
    divergence = F.kl_div(found, wanted, log_target=True, reduction="batchmean")
    loss = distillation * divergence + (1 - distillation) * cross_entropy
    if variation:  # 1 - the chance that speculative sampling accepts a token
        loss = loss + variation * 0.5 * (found.exp() - wanted.exp()).abs().sum(-1).mean()
    return loss, cross_entropy.item()


def train(
    recipe: Recipe,
    args: argparse.Namespace,
    model: LlamaForCausalLM,
    teacher: LlamaForCausalLM | None = None,
) -> None:
    windows = random_windows(
        np.memmap(args.work / "train.bin", dtype=np.uint16, mode="r"),
        recipe.batch,
        np.random.default_rng(args.seed),
    )
    model.train()
    optimizers = make_optimizers(model, recipe.learning_rate, recipe.muon_learning_rate)
    checkpoint = args.out.with_name(args.out.name + ".checkpoint")
    run = Optimization(model, optimizers, recipe.steps, recipe.warmup, checkpoint)
    print(f"{model.num_parameters():,} parameters, {recipe.steps} steps", flush=True)

    first = run.load()
    for _ in range(first):
        next(windows)
    begin, average = time.monotonic(), None
    for step in range(first, recipe.steps):
        loss, cross_entropy = loss_of(
            model, teacher, next(windows), recipe.distillation, recipe.variation
        )
        run.step(step, loss)
        average = cross_entropy if average is None else 0.98 * average + 0.02 * cross_entropy
        if (step + 1) % 50 == 0 or step + 1 == recipe.steps:
            tokens = (step + 1) * recipe.batch * CONTEXT
            seconds = time.monotonic() - begin
            left = seconds / (step + 1 - first) * (recipe.steps - step - 1)
            print(
                f"step {step + 1} of {recipe.steps}, {tokens / 1e6:.2f} M tokens, "
                f"cross-entropy {average:.3f}, {left / 60:.1f} minutes left",
                flush=True,
            )
            run.save(step + 1)
    save(model, args)
    run.finish()


def save(model: LlamaForCausalLM, args: argparse.Namespace) -> None:
    valid = np.fromfile(args.work / "valid.bin", dtype=np.uint16)
    print(f"validation loss {validation_loss(model.eval(), valid):.3f} nats a token (fp32)")
    model.to(torch.bfloat16).save_pretrained(args.out)
    (args.out / "tokenizer.json").write_bytes((args.work / "tokenizer.json").read_bytes())
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "model_max_length": POSITIONS,
        "chat_template": CHAT_TEMPLATE,
    }
    (args.out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    print(f"saved in {args.out}, in bf16")


def with_overrides(recipe: Recipe, args: argparse.Namespace) -> Recipe:
    changes = {name: getattr(args, name) for name in ("steps", "batch") if getattr(args, name)}
    return dataclasses.replace(recipe, **changes)


@torch.no_grad()
def grow(small: LlamaForCausalLM, recipe: Recipe) -> LlamaForCausalLM:
    """A deeper and wider model that computes what `small` does: each layer is followed by a copy of
    itself that adds nothing yet, and new units of the feed-forward part are not read by anything
    yet. """
    large = make_model(recipe)
    old, times = small.config.intermediate_size, recipe.layers // small.config.num_hidden_layers
    large.model.embed_tokens.weight.copy_(small.model.embed_tokens.weight)
    large.model.norm.weight.copy_(small.model.norm.weight)
    for place, layer in enumerate(large.model.layers):
        source = small.model.layers[place // times]
        layer.self_attn.load_state_dict(source.self_attn.state_dict())
        layer.input_layernorm.load_state_dict(source.input_layernorm.state_dict())
        layer.post_attention_layernorm.load_state_dict(source.post_attention_layernorm.state_dict())
        layer.mlp.gate_proj.weight[:old] = source.mlp.gate_proj.weight
        layer.mlp.up_proj.weight[:old] = source.mlp.up_proj.weight
        layer.mlp.down_proj.weight.zero_()
        layer.mlp.down_proj.weight[:, :old] = source.mlp.down_proj.weight
        if place % times:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return large


def begin_with(args: argparse.Namespace, recipe: Recipe) -> Recipe:
    torch.manual_seed(args.seed)
    return with_overrides(recipe, args)


def train_target(args: argparse.Namespace) -> None:
    recipe = begin_with(args, TARGET)
    train(recipe, args, make_model(recipe))


def grow_target(args: argparse.Namespace) -> None:
    recipe = begin_with(args, GROWN)
    train(recipe, args, grow(load_model(args.start), recipe))


def train_draft(args: argparse.Namespace) -> None:
    recipe = begin_with(args, DRAFT)
    train(recipe, args, make_model(recipe), load_model(args.teacher))


def refine_draft(args: argparse.Namespace) -> None:
    recipe = begin_with(args, REFINED_DRAFT)
    train(recipe, args, load_model(args.start), load_model(args.teacher))


# --- Evaluation ---------------------------------------------------------------------------------


@torch.inference_mode()
def validation_loss(model: LlamaForCausalLM, ids: np.ndarray, windows: int = 320) -> float:
    """Cross-entropy in nats per token over windows evenly spread over the text."""
    starts = np.linspace(0, len(ids) - CONTEXT - 1, windows).astype(int)
    rows = np.stack([ids[start : start + CONTEXT + 1] for start in starts]).astype(np.int64)
    losses = [loss_of(model, None, batch, 0.0)[1] for batch in torch.from_numpy(rows).split(16)]
    return sum(losses) / len(losses)


@torch.inference_mode()
def agreement(
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM,
    prompts: torch.Tensor,
    tokens: int,
    temperature: float,
) -> tuple[float, float]:
    """On the target's own continuations: mean of sum min(p, q) a token, which is the chance that
    speculative sampling accepts a token drawn from q; and the same for q's most likely token alone.
    At temperature 0 both are the share of tokens where the two models' best token is the same."""
    how = dict(do_sample=True, temperature=temperature, top_k=0) if temperature else {}
    torch.manual_seed(1)
    text = target.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        **{"do_sample": False, **how},
    )
    before = slice(prompts.size(1) - 1, text.size(1) - 1)
    p_logits = target(text, use_cache=False).logits[:, before]
    q_logits = draft(text, use_cache=False).logits[:, before]
    best = q_logits.argmax(-1, keepdim=True)
    if not temperature:
        same = (p_logits.argmax(-1, keepdim=True) == best).float().mean().item()
        return same, same
    p, q = (p_logits / temperature).softmax(-1), (q_logits / temperature).softmax(-1)
    return torch.minimum(p, q).sum(-1).mean().item(), p.gather(-1, best).mean().item()


def evaluate(args: argparse.Namespace) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(args.target / "tokenizer.json"))
    valid = encode(tokenizer, read_documents(args.corpus, "valid"))
    target, draft = load_model(args.target), load_model(args.draft)
    for name, model in (("target", target), ("draft", draft)):
        loss = validation_loss(model, valid)
        print(f"{name}: {model.num_parameters():,} parameters, validation loss {loss:.3f}")

    books = [text for text in read_documents(args.corpus, "valid") if len(text) > 200_000]
    ids = encode(tokenizer, books)
    starts = np.linspace(1000, len(ids) - 1000, args.prompts).astype(int)
    prompts = torch.from_numpy(np.stack([ids[s : s + 64] for s in starts]).astype(np.int64))
    print(f"{args.prompts} prompts of 64 tokens, {args.tokens} tokens each:")
    for temperature in (0.0, 0.7, 1.0):
        accepted, one_hot = agreement(target, draft, prompts, args.tokens, temperature)
        what = "greedy agreement" if not temperature else "mean of sum min(p, q)"
        more = f", draft's best token alone {one_hot:.3f}" if temperature else ""
        print(f"  temperature {temperature}: {what} {accepted:.3f}{more}", flush=True)


def sample(args: argparse.Namespace) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(args.target)
    model = load_model(args.target)
    inputs = tokenizer(args.prompt, return_tensors="pt", return_token_type_ids=False)
    torch.manual_seed(args.seed)
    how = dict(do_sample=True, temperature=args.temperature, top_k=0) if args.temperature else {}
    ids = model.generate(**inputs, max_new_tokens=args.tokens, **{"do_sample": False, **how})
    print(tokenizer.decode(ids[0], skip_special_tokens=True))


# --- Command line -------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and samples")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run, about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about)
        sub.set_defaults(run=run)
        return sub

    def folder(sub: argparse.ArgumentParser, name: str, about: str) -> None:
        sub.add_argument(name, type=pathlib.Path, required=True, metavar="DIR", help=about)

    sub = command("prepare", prepare, "train the tokenizer and encode the corpus")
    folder(sub, "--corpus", "folder of *_train.txt.xz and *_valid.txt.xz")
    folder(sub, "--work", "where tokenizer.json, train.bin and valid.bin go")
    sub.add_argument("--tokenizer", type=pathlib.Path, help="use this tokenizer.json, train none")
    sub.add_argument("--documents", type=int, help="only so many of each file, for a try")

    for name, run, about in (
        ("target", train_target, "train the target"),
        ("grow", grow_target, "make a larger target of one, and train it on"),
        ("draft", train_draft, "distil the draft from the target"),
        ("refine", refine_draft, "distil a draft on, from a better target"),
    ):
        sub = command(name, run, about)
        folder(sub, "--work", "what prepare made")
        folder(sub, "--out", "where the model goes")
        if name in ("draft", "refine"):
            folder(sub, "--teacher", "the target")
        if name in ("grow", "refine"):
            folder(sub, "--start", "the model to begin with")
        sub.add_argument("--steps", type=int, help="other than the recipe's")
        sub.add_argument("--batch", type=int, help="windows a step, other than the recipe's")

    sub = command("evaluate", evaluate, "validation losses, and how often the draft is right")
    folder(sub, "--corpus", "folder of *_valid.txt.xz")
    folder(sub, "--target", "model directory")
    folder(sub, "--draft", "model directory")
    sub.add_argument("--prompts", type=int, default=16)
    sub.add_argument("--tokens", type=int, default=128, help="after each prompt")

    sub = command("sample", sample, "continue a prompt")
    folder(sub, "--target", "model directory")
    sub.add_argument("--prompt", default="Once upon a time")
    sub.add_argument("--tokens", type=int, default=120)
    sub.add_argument("--temperature", type=float, default=0.8, help="0 = greedy")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    args.run(args)


if __name__ == "__main__":
    main()
