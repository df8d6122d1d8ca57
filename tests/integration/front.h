// An orchestrator more, in front of services that somebody else owns.
//
//   InProcessCluster cluster(…);
//   Front other(FrontOptions(cluster));
//   Reply reply = Send(other.channel(), request);
#pragma once

#include <memory>
#include <string>

#include "common/transport/server_host.h"
#include "orchestrator/options.h"
#include "orchestrator/wiring.h"
#include "tests/integration/cluster.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

// Towards the target and the draft of `cluster`.
orchestrator::Options FrontOptions(const InProcessCluster& cluster);

// CHECKs that it starts. Ready when constructed. The services must outlive it.
class Front {
 public:
  explicit Front(orchestrator::Options options);
  ~Front();

  std::string address() const;
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::unique_ptr<orchestrator::Orchestrator> orchestrator_;
  std::unique_ptr<transport::ServerHost> host_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tandem::testing
