// Consecutive immutable tokens: either a part of a shared text (for example a prompt of 100,000
// tokens that all samples of a request send to their peers), or a few tokens that it owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace tandem::speculation {

// A value type. Copying a part of a shared text copies no tokens.
class TokenSlice {
 public:
  using Text = std::shared_ptr<const std::vector<uint32_t>>;
  using value_type = uint32_t;
  using const_iterator = const uint32_t*;

  TokenSlice() = default;
  // Owned tokens.
  TokenSlice(absl::Span<const uint32_t> tokens)  // NOLINT(google-explicit-constructor)
      : own_(tokens.begin(), tokens.end()) {}
  TokenSlice(std::vector<uint32_t> tokens)  // NOLINT(google-explicit-constructor)
      : own_(std::move(tokens)) {}
  TokenSlice(std::initializer_list<uint32_t> tokens) : own_(tokens) {}
  // Part of `text`, which it keeps alive: `size` tokens from `begin`. `begin + size` is within it.
  TokenSlice(Text text, size_t begin, size_t size)
      : text_(std::move(text)), part_(text_->data() + begin, size) {}

  // Whether its tokens are shared, so that it costs no memory of its own.
  bool shared() const { return text_ != nullptr; }

  size_t size() const { return span().size(); }
  bool empty() const { return size() == 0; }
  const uint32_t* data() const { return span().data(); }
  const uint32_t* begin() const { return data(); }
  const uint32_t* end() const { return data() + size(); }
  uint32_t operator[](size_t index) const { return span()[index]; }

  friend bool operator==(const TokenSlice& a, const TokenSlice& b) { return a.span() == b.span(); }

 private:
  absl::Span<const uint32_t> span() const { return shared() ? part_ : absl::MakeConstSpan(own_); }

  Text text_;                        // null: the tokens are in `own_`
  absl::Span<const uint32_t> part_;  // of *text_
  std::vector<uint32_t> own_;
};

}  // namespace tandem::speculation
