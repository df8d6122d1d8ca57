// What speculative decoding wins in theory, if every draft token is accepted with the same
// probability.
//
// Source: Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding",
// ICML 2023 (arXiv 2211.17192), section 3. The letters are the paper's:
//   alpha  chance that a draft token is accepted, given that all before it were; 0 to 1
//   gamma  draft tokens per round; 0 = the target alone
//   c      time of one step of the draft, of the target's as 1; at least 0
//   c_hat  the same for arithmetic operations
//
// Assumptions, all of them the paper's: acceptance is independent from draft token to draft token
// with one alpha; a target pass takes the same time for gamma + 1 rows as for one; the text is
// long. round_time.h has passes whose time follows their rows.
//
// Thread safety: pure functions. Arguments outside their ranges are a CHECK.
#pragma once

namespace tandem::theory {

// Tokens that a round gives: (1 - alpha^(gamma+1)) / (1 - alpha), equation 1; gamma + 1 where alpha
// is 1. A gamma that is not a whole number (a mean over rounds) is allowed, and approximate.
double ExpectedTokens(double alpha, double gamma);

// How many times as fast as the target alone, theorem 3.8:
// (1 - alpha^(gamma+1)) / ((1 - alpha)(gamma c + 1)).
double Speedup(double alpha, int gamma, double c);

// Corollary 3.9: some gamma is faster than none if alpha > c, and gamma = 1 already is. The other
// direction holds as well: alpha <= c gives ExpectedTokens <= 1 + gamma alpha <= 1 + gamma c.
bool CanSpeedUp(double alpha, double c);

// Corollary 3.9: what the best gamma wins at least where CanSpeedUp: (1 + alpha) / (1 + c).
double MinBestSpeedup(double alpha, double c);

// Arithmetic operations, as a factor on those of the target alone, theorem 3.11:
// (1 - alpha)(gamma c_hat + gamma + 1) / (1 - alpha^(gamma+1)).
double OperationsFactor(double alpha, int gamma, double c_hat);

// How many times fewer bytes are read for a token (section 3.4): target weights and cache are read
// once per round, so ExpectedTokens; with the draft's own reads ExpectedTokens / (1 + gamma reads).
// `draft_reads`: what a step of the draft reads, of a target pass as 1; at least 0, 0 in the paper.
double ReadsSaved(double alpha, int gamma, double draft_reads);

// The gamma from 0 to `max_gamma` with the largest Speedup, section 3.5; the smallest of equals.
int OptimalGamma(double alpha, double c, int max_gamma);

// The speed-up that no gamma exceeds, however cheap the draft (section 3.6): 1 / (1 - alpha);
// infinite for alpha = 1.
double SpeedupBound(double alpha);

// What an oracle would win. Before each round it knows how many draft tokens would be accepted, and
// drafts so many (section 3.5; the paper gives only the tokens of such a round, 1 / (1 - alpha)).
//
// Of an endless draft N draft tokens would be accepted. N is geometric: P(N = n) = alpha^n (1 -
// alpha), mean alpha / (1 - alpha). A round drafts N, so it takes 1 + c N, and gives N + 1 tokens.
// Over many rounds (renewal reward) the speed is the ratio of the means:
//   (1 + alpha/(1-alpha)) / (1 + c alpha/(1-alpha)) = 1 / (1 - alpha (1 - c)).
// Drafting all N is right while c < 1: one more draft token costs c and brings a token, which
// otherwise costs 1 - alpha (1 - c) > c. From c = 1 on the oracle drafts nothing: 1.
// Infinite for alpha = 1 and c = 0.
double OracleSpeedup(double alpha, double c);

}  // namespace tandem::theory
