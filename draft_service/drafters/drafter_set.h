// The drafters that a draft service offers.
//
// Thread safety: immutable; what a factory makes is used as drafter.h says.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {

class DrafterSet {
 public:
  // `drafters`: at least one, with distinct names. `default_drafter`: one of them; empty: the
  // first.
  DrafterSet(std::vector<DrafterFactory> drafters, absl::string_view default_drafter);

  // `name` empty: the default. Null: there is none of that name.
  const DrafterFactory* Find(absl::string_view name) const;

  // The default first, then the others in the order that they were given in.
  std::vector<std::string> names() const;
  // Those that make trees, in that order.
  std::vector<std::string> tree_names() const;
  // Those that have no q to draw from, likewise.
  std::vector<std::string> one_hot_names() const;
  // Those that make blocks in advance, likewise.
  std::vector<std::string> preparing_names() const;

 private:
  std::vector<std::string> Those(bool DrafterFactory::*can, bool value) const;

  std::vector<DrafterFactory> drafters_;  // the default first
};

}  // namespace tandem::draft_service
