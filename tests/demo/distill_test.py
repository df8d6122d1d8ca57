"""demo/distill.py train, on a few random answers of the demo target; and what its loss says."""

import argparse
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "demo"))
try:
    import numpy as np
    import torch
    import transformers  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: the whole test: {missing}; pip install -r demo/requirements.txt")
    sys.exit(0)

import distill
import distillation
import draft_model
import texts

TARGET = ROOT / "demo/target"
VOCABULARY = 4096


def random_text(random, prompt=12, answer=20):
    top = np.stack([random.choice(VOCABULARY, texts.TOP, replace=False) for _ in range(answer)])
    share = random.dirichlet(np.ones(texts.TOP + 1), answer)[:, :-1]
    share = -np.sort(-share, axis=1)
    prompt_ids = random.integers(1, VOCABULARY, prompt).astype(np.int32)
    return texts.Text(
        0,
        prompt_ids,
        top[:, 0].astype(np.int32),
        top.astype(np.int32),
        np.log(share).astype(np.float16),
    )


class DistillTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        random = np.random.default_rng(3)
        self.written = [random_text(random) for _ in range(9)]
        (self.work / "answers").mkdir()
        texts.write_shard(self.work / "answers/0000.npz", self.written[:5])
        texts.write_shard(self.work / "answers/0001.npz", self.written[5:])

    def arguments(self, out, **more):
        return argparse.Namespace(
            **{
                **dict(
                    target=TARGET,
                    work=self.work,
                    out=self.work / out,
                    start=None,
                    seed=0,
                    steps=4,
                    batch=128,
                    warmup=1,
                    learning_rate=4e-3,
                    muon_learning_rate=0.02,
                    variation=1.0,
                    report=2,
                    dropout=0.1,
                    embedding_share=0.1,
                    keep=512,
                    hidden=32,
                    layers=1,
                    heads=2,
                    feed_forward=64,
                ),
                **more,
            }
        )

    def weights(self, out):
        return {
            name: value.clone()
            for name, value in draft_model.load(self.work / out).state_dict().items()
        }

    def assert_same(self, left, right):
        self.assertEqual(left.keys(), right.keys())
        for name in left:
            self.assertTrue(torch.equal(left[name], right[name]), name)

    def test_shards_keep_the_texts(self):
        for one, two in zip(self.written, texts.read_shards(self.work / "answers"), strict=True):
            for a, b in zip(one, two):
                np.testing.assert_array_equal(a, b)

    def test_an_interrupted_run_goes_on_as_the_same(self):
        distill.train(self.arguments("whole"))
        step = distill.Optimization.step

        def interrupted(run, number, loss):
            if number == 3:
                raise KeyboardInterrupt
            step(run, number, loss)

        distill.Optimization.step = interrupted
        try:
            self.assertRaises(KeyboardInterrupt, distill.train, self.arguments("broken"))
        finally:
            distill.Optimization.step = step
        self.assertTrue((self.work / "broken.checkpoint").exists())
        distill.train(self.arguments("broken"))
        self.assertFalse((self.work / "broken.checkpoint").exists())
        self.assert_same(self.weights("whole"), self.weights("broken"))

    def test_a_draft_may_be_trained_on(self):
        distill.train(self.arguments("first"))
        distill.train(self.arguments("second", start=self.work / "first"))
        first, second = self.weights("first"), self.weights("second")
        self.assertTrue(torch.equal(first["kept"], second["kept"]))
        self.assertFalse(torch.equal(first["lm_head.weight"], second["lm_head.weight"]))

    def test_bad_input_is_refused_before_work(self):
        for more, word in (
            (dict(work=self.work / "none"), "has no answers"),
            (dict(target=self.work), "config.json is missing"),
            (dict(hidden=33), "multiple of --heads=2"),
            (dict(out=self.work / "answers"), "is there already"),
            (dict(keep=VOCABULARY + 1), "keep 1 to that many"),
            (dict(start=TARGET), "no draft that distill.py wrote"),
        ):
            with self.assertRaises(SystemExit) as refused:
                distill.train(argparse.Namespace(**{**vars(self.arguments("out")), **more}))
            self.assertIn(word, str(refused.exception))
            self.assertFalse((self.work / "out").exists())

    def test_the_kept_tokens_are_the_likeliest(self):
        kept = distillation.kept_tokens(self.written, VOCABULARY, 8, always=[7])
        weight = np.zeros(VOCABULARY)
        for text in self.written:
            np.add.at(weight, text.top, np.exp(text.top_logprobs.astype(np.float64)))
        weight[7] = 1e9
        self.assertEqual(set(kept), set(np.argsort(-weight)[:8]))
        self.assertTrue((np.diff(kept) > 0).all())

    def test_loss_and_acceptance_are_those_of_whole_distributions(self):
        # A target whose tokens are all known: nothing is left for "all others".
        random = np.random.default_rng(1)
        p = torch.from_numpy(random.dirichlet(np.ones(texts.TOP), 6).astype(np.float32)).sort(
            1, True
        )[0]
        text = texts.Text(
            0,
            np.array([1, 2], np.int32),
            np.arange(6, dtype=np.int32),
            np.tile(np.arange(texts.TOP, dtype=np.int32), (6, 1)),
            p.log().numpy(),
        )
        batches = distillation.Batches([text], np.arange(texts.TOP), texts.TOP, 64, "cpu")
        logits = torch.from_numpy(random.normal(size=(6, texts.TOP)).astype(np.float32))
        q = logits.softmax(1)
        loss, accepted = distillation.loss_of(logits, batches.make([0]), 2.0)
        expected = (p * (p / q).log()).sum(1) + 2 * 0.5 * (p - q).abs().sum(1)
        self.assertAlmostEqual(loss.item(), expected.mean().item(), places=3)
        self.assertAlmostEqual(accepted.item(), torch.minimum(p, q).sum(1).mean().item(), places=4)
        rows = torch.arange(texts.TOP).expand(6, -1)
        for temperature in (1.0, 0.7):
            sharp = (p.log() / temperature).softmax(1)
            both = torch.minimum(sharp, (logits / temperature).softmax(1)).sum(1)
            at = distillation.accepted_at(logits, text, rows, temperature)
            torch.testing.assert_close(at, both, atol=1e-4, rtol=0)
        same = distillation.accepted_at(logits, text, rows, 0.0)
        self.assertEqual(same.tolist(), (q.argmax(1) == 0).float().tolist())


if __name__ == "__main__":
    unittest.main()
