#include "common/serving/describe.h"

#include <utility>

#include "absl/status/status.h"
#include "common/messages/describe.h"
#include "common/transport/reply_stream.h"

namespace tandem::serving {

transport::RawService::Reactor<v1::DescribeReply>* Describe(
    grpc::CallbackServerContext* call, const v1::Welcome& welcome,
    const std::function<uint32_t(uint32_t token)>& token_hash, std::function<v1::Load()> load) {
  return transport::ServeAnswer<v1::DescribeRequest, v1::DescribeReply>(
      call, absl::OkStatus(),
      [&welcome, &token_hash, load = std::move(load)](const v1::DescribeRequest& request,
                                                      v1::DescribeReply& reply) {
        *reply.mutable_load() = load();
        return messages::FillDescription(request, welcome, token_hash, reply);
      });
}

}  // namespace tandem::serving
