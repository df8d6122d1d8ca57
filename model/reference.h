// A slow, plain decoder in fp32: whole sequences, no cache, one ATen operation a line. What Decoder
// is compared with; it computes the same specifications.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem::model {

// Thread safety: one thread at a time.
class Reference {
 public:
  virtual ~Reference() = default;

  // The same errors as Load (load.h).
  static absl::StatusOr<std::unique_ptr<Reference>> Load(const std::string& directory);

  virtual int vocabulary_size() const = 0;

  // [tokens, vocabulary_size], row-major. Each token below vocabulary_size; at least one. `parents`
  // as in ForwardPart (language_model.h), before which nothing is held: -1 is a text's beginning.
  virtual std::vector<float> Logits(absl::Span<const uint32_t> tokens,
                                    absl::Span<const int> parents) = 0;
  std::vector<float> Logits(absl::Span<const uint32_t> chain) { return Logits(chain, {}); }
};

}  // namespace tandem::model
