// Whether a device computes what it must: the part of our tests that a machine can run for itself,
// because a card, a driver or a version of LibTorch that nobody has tested may stand under it.
//
//   parity    logits are near the reference's, the decoder of model/
//   cuts      a text read in one pass, and in passes of one token and of several: the same bits
//   company   a row among others, and alone: the same bits
//   order     the same parts in another order, so at other places of the pass: the same bits
//   repeat    the same pass once more: the same bits
//   long      rows near the end of a text of several pages: the decoder's, and the same bits in
//             any cut
//   tiles     rows of passes of each size (RowSizes), and in short passes: the same bits
//   trees     a row of a tree, and the same row of its chain: the same bits; and rows behind a path
//             of which cells have moved
//   capture   passes can be captured as graphs
//   eager     a pass by its graph, and eagerly: the same bits
//
// All but parity are exact, and speculative decoding rests on them: a verify pass gives the text
// that plain decoding gives only if a row does not depend on what else is in the pass.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/language_model.h"

namespace tandem::torch {

struct CheckResult {
  std::string name;     // as above
  absl::Status status;  // OK: passed; else what differs, and where
};

// How far the checks go. The default is for a processor, which has one shape of a pass.
struct CheckSize {
  int tile = 0;  // rows of a product; 0: `tiles` is left out
  int long_text = 300;
};
// `tiles` compares no longer passes.
inline constexpr int kMostCheckedRows = 2048;
// Of a card: as many cells as attention cuts into several partials.
inline CheckSize CheckSizeOfCard(int tile) { return {tile, 1000}; }

// All results, those that passed too. Both models have the same weights and vocabulary, and room
// for 600 tokens in all, or 4,096 with the size of a card. `tolerance` is that of parity: the
// largest difference of a row, relative to its largest logit. An error of the device is the result
// of the check that met it.
std::vector<CheckResult> CheckModel(model::LanguageModel& device, model::LanguageModel& reference,
                                    double tolerance = 1e-4, const CheckSize& size = {});

// Whether two devices of the same weights give the same bits, in passes of several sizes: graphs,
// and the same passes eagerly. DATA_LOSS: they do not. Each has room as above.
absl::Status CheckSameBits(model::LanguageModel& device, model::LanguageModel& other,
                           const CheckSize& size = {});

// Whether a device whose products are of all rows of a pass (StepOptions::whole_products) gives the
// bits of one whose products are of `tile` rows, in a pass of each size up to max_rows, which both
// share. DATA_LOSS: it does not. FAILED_PRECONDITION: the context is too short for such passes.
absl::Status CheckWholeProducts(model::LanguageModel& whole, model::LanguageModel& tiles, int tile);

// OK: all passed. FAILED_PRECONDITION: the names and differences of those that did not.
absl::Status FirstFailures(absl::Span<const CheckResult> results);

// What passes of 1, 2, 4, … max_rows rows take, each row a sequence of its own: the least of so
// many times.
struct CostPoint {
  int rows = 0;
  absl::Duration took;
};
absl::StatusOr<std::vector<CostPoint>> MeasureCost(model::LanguageModel& device, int max_rows = 64,
                                                   int times = 3);

// For people: a line a check, then a line a point.
std::string CheckTable(absl::Span<const CheckResult> results, absl::Span<const CostPoint> cost);

}  // namespace tandem::torch
