// A request's trace as a tree, put together from the spans of all three services, and what must
// hold of it. Clock times of two services are never compared; durations are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tandem/v1/generation.pb.h"
#include "tests/support/spans.h"

namespace tandem::testing {

struct ProposeNode {
  FinishedSpan span;                   // draft.propose
  std::vector<FinishedSpan> at_draft;  // draft_service.propose
};

struct VerifyNode {
  FinishedSpan span;                    // verify
  std::vector<FinishedSpan> at_target;  // target.step
  bool answered() const;
};

struct RoundNode {
  FinishedSpan span;
  std::vector<ProposeNode> propose;
  std::vector<VerifyNode> verify;  // in order
};

struct TraceTree {
  FinishedSpan generate;
  std::vector<RoundNode> rounds;                  // by sample, then number
  std::map<std::string, FinishedSpan> strangers;  // spans of the trace that hang nowhere, by id
};

// By trace id. Traces without a `generate` are left out, and so are passes, which have traces of
// their own.
std::map<std::string, TraceTree> TreesOf(const std::vector<FinishedSpan>& spans);
// By span id.
std::map<std::string, FinishedSpan> PassesOf(const std::vector<FinishedSpan>& spans);

// Everything that is to come of these requests has come: draft and target answered, and told it.
bool IsWhole(const std::vector<FinishedSpan>& spans, size_t requests);

// Steps that came to nothing.
size_t Unanswered(const TraceTree& tree);

// What is wrong; empty: nothing. Of a request that ended well, with round_records, and whose blocks
// came in time:
// - names, kinds, services, parents; an Advance and a Step that were sent have one span at their
// service; - as many rounds as Last says, which are those of the records, with their attributes; -
// a round's stages sum up to its duration, give or take 1 µs a stage; network is what the round
// waited
//    for its peers, less what they report of themselves;
//  - the records add up to Last.
std::string ProblemsOf(const TraceTree& tree, const v1::Last& last,
                       const std::vector<v1::RoundRecord>& records);
// - each Step that was answered links to the one pass that decided it, of the same id; a pass links
// to
//    as many verify spans as it had sequences, which is right where all sequences are traced.
std::string ProblemsOfPasses(const std::map<std::string, TraceTree>& trees,
                             const std::map<std::string, FinishedSpan>& passes);

}  // namespace tandem::testing
