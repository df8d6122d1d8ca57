// tandem.internal.v1.Target over any engine.
//
//   auto engine = CpuEngine::Create({}, std::move(model));
//   auto service = Service::Create(options, *std::move(engine));
//   builder.RegisterService((*service)->grpc_service());
//   …
//   (*service)->Drain();   // wait for open_sequences() == 0, End(), then shut the server down,
//   then destroy the service
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/serving/service.h"
#include "target_service/engine/engine.h"
#include "target_service/options.h"

namespace tandem::target_service {

// When it drains, new sequences are answered DRAINING; those that are open go on.
// active_sequences() has those that linger, too; open_sequences() has not, for nobody may ever come
// for them. Thread-safe.
class Service : public serving::Service {
 public:
  // Measures what passes cost (options.measure) and starts the device's thread. INVALID_ARGUMENT
  // names each option that is out of its range. UNAVAILABLE: the engine's device was lost
  // meanwhile.
  static absl::StatusOr<std::unique_ptr<Service>> Create(Options options,
                                                         std::unique_ptr<Engine> engine);
};

}  // namespace tandem::target_service
