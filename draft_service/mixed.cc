#include "draft_service/mixed.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "draft_service/guesses.h"
#include "draft_service/successor_drafter.h"

namespace tandem::draft_service {
namespace {

class Mixed final : public Drafter {
 public:
  Mixed(std::unique_ptr<Drafter> context, SuccessorChain rest)
      : guesses_(std::move(context), std::move(rest)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    return guesses_.Accept(keep, tokens);
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    return guesses_.After({}, max_draft_tokens);
  }

 private:
  Guesses guesses_;
};

}  // namespace

DrafterFactory MixedFactory(MixedOptions options, std::shared_ptr<const SuccessorTable> table) {
  TANDEM_CHECK(table != nullptr);
  return {options.name,
          [context = ContextNgramFactory(options.context), table = std::move(table)](
              const speculation::SequenceSettings& settings,
              Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            TANDEM_ASSIGN_OR_RETURN(auto made, context.make(settings, Proposal::kGreedy));
            return std::make_unique<Mixed>(std::move(made),
                                           SuccessorChain(table, settings, proposal));
          }};
}

}  // namespace tandem::draft_service
