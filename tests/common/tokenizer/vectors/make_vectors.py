#!/usr/bin/env python3
"""Makes the small tokenizers of this folder, and what other implementations make of hard texts.

Run by hand when a tokenizer or a text is added, never by a build or a test:

    python3 -m venv /tmp/vectors
    /tmp/vectors/bin/pip install -r tests/common/tokenizer/vectors/requirements.txt
    /tmp/vectors/bin/python tests/common/tokenizer/vectors/make_vectors.py

Each tokenizer is trained on prose.txt and becomes a folder:

    tokenizer.json   as Hugging Face writes such a tokenizer
    vectors.json     {"bos": [ids in front of every text],
                      "vectors": [{"text": ..., "ids": [...], "decoded": ...}, ...]}

The ids and the decoded texts are those of tiktoken (byte-level ones) and of sentencepiece (the
others), never those of the tokenizers crate, which the product uses. `ids` have no `bos`. `decoded`
is what the ids mean without special tokens. The script is deterministic.
"""

import collections
import json
import pathlib
import tempfile
import unicodedata

import regex
import sentencepiece
import tiktoken

HERE = pathlib.Path(__file__).resolve().parent
PROSE = (HERE / "prose.txt").read_text(encoding="utf-8")
MARK = "<|mark|>"

# Every kind of text that tokenizers disagree about. Special tokens are in texts of their own.
TEXTS = [
    "",
    " ",
    "  ",
    "   ",
    "a",
    " a",
    "a ",
    "The draft proposes a block, and the target checks it.",
    "two  spaces   three    four     end",
    "    indented\n        more\n\tby a tab\n",
    "\n",
    "\n\n",
    "\n\n\n \n  \n   x",
    "\t",
    "\t\t\tx\t \t",
    "line\r\nline\r\n\r\nline\rline",
    "ends in spaces   ",
    "ends in newlines\n\n",
    " \n \t \r\n x",
    "I'm, you're, he's, we've, they'll, I'd, can't",
    "I'M YOU'RE HE'S WE'VE THEY'LL I'D CAN'T",
    "'s't're've'm'll'd 'S'T'RE",
    "the dogs' bones; rock 'n' roll; it's\u2019s",
    "1 12 123 1234 12345 1,234,567.89 3.14e-10",
    "a1b22c333 v1.2.3 0x1F 50% $5 #7",
    "\u0661\u0662\u0663 \u0967\u0968 \u2160\u00bd\u00b2",
    "for (int i = 0; i < n; ++i) { sum += x[i]; }  // done",
    "snake_case camelCase SCREAMING_CASE kebab-case",
    "...!!!???---===***///\\\\\\",
    "(a)[b]{c}<d>\"e\"'f'`g`",
    "user@example.org https://example.org/a?b=c&d=%20#e",
    "caf\u00e9 na\u00efve \u00fcber stra\u00dfe \u0153uvre \u00c5ngstr\u00f6m",
    "cafe\u0301 A\u030angstrom n\u0303 o\u0302\u0323",
    "\u212b \u2126 \ufb01 \u00bd \u2460",
    "\u4e2d\u6587\u6ca1\u6709\u7a7a\u683c\u3002\u5168\u89d2\uff01\uff1f",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002 \u304b\u3099",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5 \u1112\u1161\u11ab",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001f600\U0001f680 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f",
    "z\u0351\u036b\u0343a\u0329\u0328l\u0333\u0301g\u035d\u0300o\u0322",
    "\u200b\u200c\u200d\u2060\ufeff zero width",
    "non\u00a0breaking\u2009thin\u3000ideographic\u2028line\u2029paragraph\u0085next",
    "\ufffd",
    "a\ufffdb\ufffd\ufffdc",
    "\ufffe\uffff\U0010ffff \ue000 \U000e0001",
    "\u0001\u001b[31m\u007f\u0080",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "thethethethe Thethe tHe",
    "<unk> <s> </s> <pad> <0x0A> <|mark <|mark|",
]

SPECIAL_TEXTS = [
    f"before{MARK}after",
    f"before {MARK} after",
    f"a\n{MARK}\nb",
    f"twice{MARK}{MARK} end{MARK}",
    f"caf\u00e9 \u4e2d{MARK}  \U0001f600",
]
LEADING_SPECIALS = [MARK, f"{MARK} a", f"{MARK}{MARK}a"]

GPT2_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def added(token_id, content, normalized):
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": normalized,
        "special": True,
    }


def write(name, tokenizer, bos, vectors):
    folder = HERE / name
    folder.mkdir(exist_ok=True)

    def dump(file, value, **layout):
        text = json.dumps(value, ensure_ascii=False, **layout) + "\n"
        (folder / file).write_text(text, encoding="utf-8")

    dump("tokenizer.json", tokenizer, separators=(",", ":"))
    lines = ",\n".join(json.dumps(vector, ensure_ascii=True) for vector in vectors)
    (folder / "vectors.json").write_text(f'{{"bos": {bos}, "vectors": [\n{lines}\n]}}\n')


# ---- byte-level BPE: trained here, encoded by tiktoken ----


def byte_letters():
    """GPT-2's letter of each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(0x100 + len(letters) - len(printable))
    return letters


def train_merges(text, pattern, count):
    """The pairs of byte strings that are most frequent within the pieces of `text`, in order."""
    words = collections.Counter(
        tuple(bytes([byte]) for byte in piece.encode()) for piece in regex.findall(pattern, text)
    )
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += times
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        joined = collections.Counter()
        for word, times in words.items():
            new, i = [], 0
            while i < len(word):
                if word[i : i + 2] == best:
                    new.append(best[0] + best[1])
                    i += 2
                else:
                    new.append(word[i])
                    i += 1
            joined[tuple(new)] += times
        words = joined
    return merges


def make_byte_level(name, pattern, nfc, merge_count, specials):
    normalize = (lambda t: unicodedata.normalize("NFC", t)) if nfc else (lambda t: t)
    merges = train_merges(normalize(PROSE), pattern, merge_count)
    ranks = {bytes([byte]): byte for byte in range(256)}
    for left, right in merges:
        assert left + right not in ranks
        ranks[left + right] = len(ranks)
    special_ids = {special: len(ranks) + i for i, special in enumerate(specials)}
    encoding = tiktoken.Encoding(
        name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_ids
    )
    vectors = []
    for text in TEXTS + SPECIAL_TEXTS + LEADING_SPECIALS:
        ids = encoding.encode(normalize(text), allowed_special="all")
        plain = [i for i in ids if i not in special_ids.values()]
        vectors.append({"text": text, "ids": ids, "decoded": encoding.decode(plain)})

    letters = byte_letters()

    def spell(token):
        return "".join(letters[byte] for byte in token)

    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": not nfc,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    tokenizer = {
        "version": "1.0",
        "added_tokens": [added(i, special, False) for special, i in special_ids.items()],
        "normalizer": {"type": "NFC"} if nfc else None,
        "pre_tokenizer": (
            {"type": "Sequence", "pretokenizers": [split, byte_level]} if nfc else byte_level
        ),
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {spell(token): rank for token, rank in ranks.items()},
            "merges": [f"{spell(left)} {spell(right)}" for left, right in merges],
        },
    }
    write(name, tokenizer, [], vectors)


# ---- SentencePiece: trained and encoded by it ----


def train_sentencepiece(model_type, vocab_size, byte_fallback, symbols):
    with tempfile.TemporaryDirectory() as folder:
        prose = pathlib.Path(folder) / "prose.txt"
        prose.write_text(PROSE, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(prose),
            model_prefix=f"{folder}/model",
            model_type=model_type,
            vocab_size=vocab_size,
            byte_fallback=byte_fallback,
            character_coverage=0.999,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            split_digits=byte_fallback,
            user_defined_symbols=symbols,
            num_threads=1,
            minloglevel=2,
        )
        return sentencepiece.SentencePieceProcessor(model_file=f"{folder}/model.model")


def symbols_of(processor):
    return {processor.id_to_piece(i) for i in range(processor.get_piece_size())}


def sentencepiece_vectors(processor, texts):
    special = {processor.unk_id()}
    if MARK in symbols_of(processor):
        special.add(processor.piece_to_id(MARK))
    vectors = []
    for text in texts:
        ids = processor.encode(text)
        plain = [i for i in ids if i not in special]
        vectors.append({"text": text, "ids": ids, "decoded": processor.decode(plain)})
    return vectors


def sentencepiece_json(processor, normalized, rest):
    count = processor.get_piece_size()
    specials = [
        i
        for i in range(count)
        if processor.is_control(i)
        or processor.is_unknown(i)
        or processor.id_to_piece(i) == MARK
    ]
    return {
        "version": "1.0",
        "added_tokens": [
            added(i, processor.id_to_piece(i), normalized) for i in specials
        ],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        **rest,
    }


def without_specials(processor, texts):
    """Sentencepiece takes the names of its control tokens for text; the crate does not."""
    names = [processor.id_to_piece(i) for i in range(3)]
    return [text for text in texts if not any(name in text for name in names)]


def make_llama2(name, vocab_size):
    processor = train_sentencepiece("bpe", vocab_size, byte_fallback=True, symbols=[])
    pieces = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    mergeable = {
        piece: i
        for piece, i in pieces.items()
        if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
    }
    # Every way to make a piece of two others; the pieces with the higher scores go first, and
    # those have the lower ids.
    merges = sorted(
        (i, mergeable[piece[:cut]], mergeable[piece[cut:]])
        for piece, i in mergeable.items()
        for cut in range(1, len(piece))
        if piece[:cut] in mergeable and piece[cut:] in mergeable
    )
    spell = processor.id_to_piece
    # No text has a special token: where sentencepiece puts spaces around one, the crate does not.
    texts = without_specials(processor, TEXTS)
    tokenizer = sentencepiece_json(
        processor,
        True,
        {
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Prepend", "prepend": "\u2581"},
                    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                ],
            },
            "pre_tokenizer": None,
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                ],
            },
            "model": {
                "type": "BPE",
                "unk_token": "<unk>",
                "fuse_unk": True,
                "byte_fallback": True,
                "vocab": pieces,
                "merges": [f"{spell(left)} {spell(right)}" for _, left, right in merges],
            },
        },
    )
    write(name, tokenizer, [1], sentencepiece_vectors(processor, texts))


def make_unigram(name, vocab_size):
    processor = train_sentencepiece("unigram", vocab_size, byte_fallback=False, symbols=[MARK])
    metaspace = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "first",
        "split": False,
    }
    # No text begins with a space or a special token: sentencepiece puts a space in front of those,
    # too, and the crate does not.
    texts = [
        text
        for text in without_specials(processor, TEXTS + SPECIAL_TEXTS)
        if not text.startswith(" ")
    ]
    tokenizer = sentencepiece_json(
        processor,
        False,
        {
            "normalizer": None,
            "pre_tokenizer": metaspace,
            "decoder": metaspace,
            "model": {
                "type": "Unigram",
                "unk_id": processor.unk_id(),
                "vocab": [
                    [processor.id_to_piece(i), processor.get_score(i)]
                    for i in range(processor.get_piece_size())
                ],
                "byte_fallback": False,
            },
        },
    )
    write(name, tokenizer, [1], sentencepiece_vectors(processor, texts))


make_byte_level("gpt2", GPT2_REGEX, False, 440, ["<|endoftext|>", MARK])
make_byte_level("qwen2", QWEN2_REGEX, True, 440, ["<|endoftext|>", "<|im_start|>", MARK])
make_llama2("llama2", 720)
make_unigram("unigram", 700)
