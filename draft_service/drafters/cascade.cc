#include "draft_service/drafters/cascade.h"

#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "draft_service/drafters/guesses.h"
#include "draft_service/drafters/successor_drafter.h"

namespace tandem::draft_service {

DrafterFactory CascadeFactory(model::LanguageModel& model, ModelDrafterOptions options,
                              CascadeOptions below) {
  options.name = CascadeOptions::kName;
  options.guess_level = below.level;
  return ModelDrafterFactory(
      model, std::move(options),
      [context = ContextNgramFactory(below.context), table = std::move(below.table),
       level = below.level](const speculation::SequenceSettings& settings,
                            Proposal proposal) -> absl::StatusOr<std::unique_ptr<Guesses>> {
        TANDEM_ASSIGN_OR_RETURN(auto text, context.make(settings, Proposal::kGreedy));
        std::optional<SuccessorChain> rest;
        if (table != nullptr) rest.emplace(table, settings, proposal, level);
        return std::make_unique<Guesses>(std::move(text), std::move(rest));
      });
}

}  // namespace tandem::draft_service
