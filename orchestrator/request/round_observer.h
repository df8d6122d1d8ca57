// Who wants to see a sample's rounds (tracing, metrics, the client's time line). No-ops here, so that an
// observer overrides what it needs and the loop calls without asking.
//
// Calls come on the request's strand, in the order of the round: begun, awaited, drafted, submitted (once more for
// each Step: the pieces of a long prefix, replays), verified, decided. A round may end before that: then
// OnEnded follows. `at` is of the loop's clock, and never goes back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

class DraftSession;
class VerifySession;
struct Ending;
struct VerifyReply;

class RoundObserver {
 public:
  virtual ~RoundObserver() = default;

  // Before the first round: the ways to draft and target, to be wrapped by who wants to add to what is
  // sent there. `draft` may be null.
  virtual std::unique_ptr<DraftSession> Wrap(std::unique_ptr<DraftSession> draft);
  virtual std::unique_ptr<VerifySession> Wrap(std::unique_ptr<VerifySession> verify);

  virtual void OnRoundBegun(absl::Duration /*at*/, uint32_t /*committed*/) {}
  // Its block does not come at once: it is waited for, since the round began.
  virtual void OnDraftAwaited(absl::Duration /*at*/) {}
  // A block came, or the round goes on without one. More than once where the target takes no such block.
  virtual void OnDrafted(absl::Duration /*at*/, uint32_t /*candidates*/,
                         std::optional<PlainCause> /*cause*/) {}
  virtual void OnSubmitted(absl::Duration /*at*/) {}
  // A Step came to nothing; another one follows.
  virtual void OnReplay(absl::Duration /*at*/, absl::string_view /*reason*/) {}
  // A good answer to the last Step that was submitted.
  virtual void OnVerified(absl::Duration /*at*/, const VerifyReply& /*reply*/) {}
  virtual void OnDecided(const RoundRecord& /*round*/) {}
  // The sample is over; as the last call.
  virtual void OnEnded(absl::Duration /*at*/, const Ending& /*ending*/) {}
};

}  // namespace tandem::orchestrator
