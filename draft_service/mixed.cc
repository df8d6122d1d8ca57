#include "draft_service/mixed.h"

#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "draft_service/successor_drafter.h"

namespace tandem::draft_service {
namespace {

class Mixed final : public Drafter {
 public:
  Mixed(std::unique_ptr<Drafter> context, std::shared_ptr<const SuccessorTable> table)
      : context_(std::move(context)), table_(std::move(table)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    TANDEM_CHECK(keep <= text_.size()) << keep << " of " << text_.size();
    text_.resize(keep);
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    return context_->Accept(keep, tokens);
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    TANDEM_ASSIGN_OR_RETURN(CandidateTree block, context_->Propose(max_draft_tokens));
    if (text_.empty()) return block;
    const uint32_t last = block.empty() ? text_.back() : block.tokens.back();
    AppendLikeliest(*table_, last, max_draft_tokens, block);
    return block;
  }

 private:
  const std::unique_ptr<Drafter> context_;
  const std::shared_ptr<const SuccessorTable> table_;
  std::vector<uint32_t> text_;
};

}  // namespace

DrafterFactory MixedFactory(MixedOptions options, std::shared_ptr<const SuccessorTable> table) {
  TANDEM_CHECK(table != nullptr);
  return {options.name,
          [context = ContextNgramFactory(options.context), table = std::move(table)](
              const speculation::SequenceSettings& settings,
              Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            TANDEM_ASSIGN_OR_RETURN(auto made, context.make(settings, proposal));
            return std::make_unique<Mixed>(std::move(made), table);
          },
          /*samples=*/false};
}

}  // namespace tandem::draft_service
