// What must hold of the spans of a target, whatever was asked of it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/telemetry/attributes.h"
#include "tests/support/fake_tracer.h"

namespace tandem::target_service {

inline std::vector<testing::FakeSpan> Named(const std::vector<testing::FakeSpan>& spans,
                                            const std::string& name) {
  std::vector<testing::FakeSpan> named;
  for (const testing::FakeSpan& span : spans) {
    if (span.name == name) named.push_back(span);
  }
  return named;
}

// Each Step that a pass decided links to it, and to nothing else; that pass links back to what the
// Step is a child of. A Step without a pass links to nothing. A pass begins a trace, and links to
// some, each once. What is wrong; empty: nothing.
inline std::string LinkProblems(const std::vector<testing::FakeSpan>& spans) {
  const auto passes = Named(spans, telemetry::kPassSpan);
  for (const testing::FakeSpan& pass : passes) {
    if (pass.parent.valid()) return "a pass has a parent";
    if (pass.links.empty()) return "a pass without links";
    for (const auto& link : pass.links) {
      if (!link.sampled()) return "a pass links to what is not sampled";
      if (std::count(pass.links.begin(), pass.links.end(), link) != 1)
        return "a link is there twice";
    }
  }
  for (const testing::FakeSpan& step : Named(spans, telemetry::kStepSpan)) {
    if (!step.parent.sampled()) return "a Step has no parent";
    if (step.attributes.count(telemetry::kPassId) == 0) {
      if (!step.links.empty()) return "a Step links to a pass that it does not name";
      continue;
    }
    if (step.links.size() != 1) return absl::StrCat("a Step has ", step.links.size(), " links");
    const auto pass = std::find_if(passes.begin(), passes.end(), [&step](const auto& other) {
      return other.context == step.links[0];
    });
    if (pass == passes.end()) return "a Step links to no pass";
    for (const char* name : {telemetry::kPassId, telemetry::kPassRows, telemetry::kPassSequences}) {
      if (pass->number(name) != step.number(name)) return absl::StrCat(name, " differ");
    }
    if (std::count(pass->links.begin(), pass->links.end(), step.parent) != 1) {
      return "a pass does not link back to a Step's parent";
    }
  }
  return "";
}

}  // namespace tandem::target_service
