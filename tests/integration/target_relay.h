// A target in the middle: passes everything on to a real one, but for the Steps that it answers
// itself. So every status of the wire can be provoked in a whole system, at any time.
//
//   orchestrator ──▶ TargetRelay ──▶ target
//                       │ answer(step): a verdict of its own; the target never sees the Step
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/transport/server_host.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::testing {

class TargetRelay {
 public:
  // Called for every Step, from any thread. Nothing: the Step goes to the target.
  using Answer =
      std::function<std::optional<internal::v1::Verdict>(const internal::v1::Step& step)>;

  // `target`: host:port. Listens on a port of its own at once.
  TargetRelay(const std::string& target, Answer answer);
  ~TargetRelay();

  std::string address() const;

 private:
  class Service;

  std::unique_ptr<Service> service_;
  std::unique_ptr<transport::ServerHost> host_;
};

// The verdict of a refused Step.
internal::v1::Verdict Refuse(const internal::v1::Step& step, internal::v1::Status status,
                             const std::string& field = "");

}  // namespace tandem::testing
