#include "client/prune_vocabulary/prune_vocabulary.h"

#include "client/common/model_program.h"

namespace tandem::client {

int RunPruneVocabulary(absl::Span<const std::string> args) {
  return RunModelProgram("prune-vocabulary", args);
}

}  // namespace tandem::client
