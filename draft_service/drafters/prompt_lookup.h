// Drafts by looking the last tokens up in the text so far: what followed them there is proposed
// (Saxena, "Prompt lookup decoding", 2023). No model; one-hot, so exact under every rule.
//
// What it finds is proposed whatever the options say of it: a banned token stays in the block and
// has p = 0 at the target. So sampling options, rule and seed change nothing here.
#pragma once

#include <cstdint>
#include <string>

#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {

struct PromptLookupOptions {
  std::string name = "prompt-lookup";
  int longest_match = 3;   // tokens; tries this first, then one less; at most 8
  int shortest_match = 1;  // the last one that it tries; 1 to longest_match
};

DrafterFactory PromptLookupFactory(PromptLookupOptions options = {});

}  // namespace tandem::draft_service
