// The life of a process that serves one service: ready, serving, draining, gone.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/serving/service.h"
#include "common/transport/server_flags.h"

namespace tandem::serving {

// Serves until SIGTERM or SIGINT, and then until the open sequences are done, for flags.grace at
// most; a second signal ends the waiting. If the service fails, it is not ready from then on, and
// this returns its failure; the process should end then, and is ended after 10 s. `name`: the
// service's in grpc.health.v1, as tandem.internal.v1.Draft. `log_start` is called once the port is
// open, before anything is ready. Errors are ServerHost::Start's and WritePortFile's.
absl::Status Serve(Service& service, const std::string& name, const transport::ServerFlags& flags,
                   absl::FunctionRef<void()> log_start);

}  // namespace tandem::serving
