// What blocks that are prepared in advance win: while the target verifies a block of K draft
// tokens, its draft drafts on for the B likeliest outcomes, and the block for the one that comes
// true is there with the verdict.
//
// Source: Kumar, Dao, May, "Speculative speculative decoding" (arXiv 2603.03251), with what its
// model of time leaves out: a path of a draft grows by a pass for each of its tokens. The likeliest
// outcome is that all K draft tokens are accepted. What follows them is known to the draft after a
// pass of the last one, and the block after K passes more. So along an accepted path a draft model
// gives one token per pass, and preparing cannot be faster than that: K + 1 tokens take at least K
// + 1 draft passes.
//
// Times are in any unit, all in the same.
//
// Thread safety: plain values and pure functions. Arguments outside their ranges are a CHECK.
#pragma once

#include "absl/types/span.h"
#include "common/theory/round_time.h"

namespace tandem::theory {

// The chance that the outcome is among the B likeliest. Acceptance is independent from token to
// token, with one alpha. `ranks`: where the draft's first token was not the target's, the chance
// that the target's is its second, its third, …; beyond the last it is 0. The first token after the
// block is the draft's first with chance alpha.
double HitChance(double alpha, int draft_tokens, int outcomes, absl::Span<const double> ranks);

// `ranks` as they were measured on the embedded pair under rule coupled (docs/theory.md).
absl::Span<const double> MeasuredRanks();

inline constexpr double kUsualRow = 0.1;  // Preparing::row; of int8 on a processor 0.05 to 0.2

struct Preparing {
  double round_trip = 0;   // between orchestrator and draft
  double draft_token = 0;  // a pass of the draft with one row
  double row = 0;          // what each further row adds to it, as a share of draft_token
  // Between orchestrator and target, where the target goes on by itself with a block that came
  // before its verdict was read (target.proto, Step.after). 0: it does not.
  double target_round_trip = 0;
};

// What a verdict that finds its block spares where the target goes on by itself: of V, from a Step
// to its verdict, with W for the way to the target and back, t = V - W for the pass, P as below and
// at most V, and h for the hits.
//
// Let x be the time from when the draft hears of a block, its Step being sent or already there, to
// its verdict. The blocks for what follows reach the target W + P after the verdict before it was
// made, so the next pass waits for them by max(0, W + P - x), and the next x is t more than that.
// After a miss x is V: the draft hears of the block as its Step is sent. So hits in a row take
//
//   a = max(t, P),  b = t + max(0, W + P - a),  a,  b, …
//
// and a long row (t + max(t, W + P)) / 2 each. Where hits are independent the first, third, … of a
// row are 1 / (1 + h) of them, so a hit spares V - (a + h b) / (1 + h). That is 0 for W = 0 and for
// P = V, and at most W.
double SparedByChaining(double target_round_trip, double prepared, double hits, double verify);

// From a verdict to the next Step, on average, for blocks of so many draft tokens (a mean, above
// 0), if a share `hits` of the verdicts finds its block prepared. `verify`: from a Step to its
// verdict.
//
//   prepared after  P = round trip + draft token (1 + K (1 + row (B - 1)))
//   hit             0, less SparedByChaining, where P <= verify; else max(round trip, P - verify):
//                   the draft is asked, and goes on with what it has
//   miss            round trip + K draft token, as without; and half a pass, where P > verify: the
//                   draft is in one
//
// A hit that is late waits no longer than a miss. Negative where more is spared than waited.
double WaitForBlock(const Preparing& draft, double draft_tokens, int outcomes, double hits,
                    double verify);

struct PreparedRounds {
  int draft_tokens = 0;
  int outcomes = 0;
  double speed = 0;  // the target alone is 1
};

// The draft tokens, 1 to `max_draft_tokens`, and outcomes, 1 to `max_outcomes`, with the largest
// speed; the smallest of equals. `row`: Preparing::row. `chained`: the target goes on by itself.
// Ranks are MeasuredRanks().
PreparedRounds OptimalPrepared(const RoundTimes& times, double row, bool chained, double alpha,
                               int max_draft_tokens, int max_outcomes);

}  // namespace tandem::theory
