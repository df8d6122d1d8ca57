// From the parts of a pass to the tables that the judge's kernels read, and from what they write to
// entries and log probabilities. The kernels do what target_service/engine/judging.h does, with the
// same bits.
//
// Thread safety: none of its own; one pass at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/token_history.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/sequence_settings.h"
#include "torch/kernels/judge_types.h"

namespace tandem::kernels {

// What was judged of a part.
struct JudgedPart {
  // Absent: all is well. Else the model's row after so many tokens is not a distribution (a NaN or
  // an infinity), and there is no more here.
  std::optional<uint32_t> broken_after;
  std::vector<acceptance::Entry> entries;        // of a block: 1 + draft tokens; of prompt rows
                                                 // none
  std::vector<sampling::NodeLogprobs> logprobs;  // one per row, where the settings want them
};

class JudgeTables {
 public:
  // Forgets all parts.
  void Clear();

  // Rows first_logits_row … first_logits_row + block.size() of the logits are judged, by a rule
  // whose settings were checked. Of a chain each q is empty or gives its draft token more than 0; a
  // tree's rule has trees (common/acceptance/tree.h). `history`: the `committed` tokens, where
  // settings.sampling.looks_back(), else null.
  void AddBlock(const speculation::SequenceSettings& settings,
                const speculation::CandidateTree& block, uint32_t committed,
                const sampling::TokenHistory* history, uint32_t first_logits_row);

  // Log probabilities of a prompt: of targets[i], which stands at `position` + i, from row
  // first_logits_row + i. `history`: the `position` tokens before, as above. settings.logprobs is
  // there.
  void AddPromptRows(const speculation::SequenceSettings& settings,
                     absl::Span<const uint32_t> targets, uint32_t position,
                     const sampling::TokenHistory* history, uint32_t first_logits_row);

  size_t size() const { return parts_.size(); }  // that were added

  // What is to be copied for the kernels. A part is a sequence, a tree one for each node; rows lie
  // in the order of the parts.
  const std::vector<JudgeSequence>& sequences() const { return sequences_; }
  const std::vector<JudgeRow>& rows() const { return rows_; }
  const std::vector<uint32_t>& ids() const { return ids_; }
  const std::vector<double>& numbers() const { return numbers_; }
  uint32_t top_stride() const { return top_stride_; }  // the most that a part wants; may be 0

  // What the kernels wrote, one RowVerdict a row and top_stride() TopLogprobs: part by part.
  std::vector<JudgedPart> Read(absl::Span<const RowVerdict> verdicts,
                               absl::Span<const TopLogprob> top) const;

 private:
  struct Part {
    size_t first_sequence = 0;
    std::vector<uint32_t> parents;  // of a tree; else empty
    std::vector<uint32_t> candidates;
  };

  void AddChain(const speculation::SequenceSettings& settings,
                const speculation::CandidateTree& block, uint32_t committed,
                const sampling::TokenHistory* history, uint32_t first_logits_row);
  void AddTree(const speculation::SequenceSettings& settings,
               const speculation::CandidateTree& block, uint32_t committed,
               const sampling::TokenHistory* history, uint32_t first_logits_row);
  JudgeSequence& AddSequence(const speculation::SequenceSettings& settings, uint32_t tokens_before,
                             const sampling::TokenHistory* history);
  void AddSeen(const sampling::TokenHistory& history, JudgeSequence& sequence);
  Slice AddIds(absl::Span<const uint32_t> ids);
  JudgedPart ReadPart(const JudgeSequence& sequence, absl::Span<const RowVerdict> verdicts,
                      absl::Span<const TopLogprob> top) const;
  JudgedPart ReadTree(const Part& tree, absl::Span<const RowVerdict> verdicts,
                      absl::Span<const TopLogprob> top) const;
  void AddTop(uint32_t row, const RowVerdict& verdict, absl::Span<const TopLogprob> top,
              sampling::NodeLogprobs& to) const;

  std::vector<Part> parts_;
  std::vector<JudgeSequence> sequences_;
  std::vector<JudgeRow> rows_;
  std::vector<uint32_t> ids_;
  std::vector<double> numbers_;
  uint32_t top_stride_ = 0;
};

}  // namespace tandem::kernels
