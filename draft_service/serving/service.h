// tandem.internal.v1.Draft over any drafters.
//
//   auto model = …;                                      // shared by the drafters that use it
//   options.drafters = {ModelDrafterFactory(*model, {}), PromptLookupFactory()};
//   auto service = Service::Create(options);
//   builder.RegisterService((*service)->grpc_service());
//   …
//   (*service)->Drain();   // wait for open_sequences() == 0, End(), then shut the server down,
//   then destroy the service, then the model
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/serving/service.h"
#include "draft_service/serving/options.h"

namespace tandem::draft_service {

// When it drains, streams are handed over: those without an unanswered Advance end at once, the
// others with the last Block that they are owed then, all with UNAVAILABLE; new ones are refused
// so, and Advances that come meanwhile with DRAINING. Thread-safe.
class Service : public serving::Service {
 public:
  // Starts the drafting thread, the only one that calls the drafters. INVALID_ARGUMENT names each
  // option that is out of its range.
  static absl::StatusOr<std::unique_ptr<Service>> Create(Options options);
};

}  // namespace tandem::draft_service
