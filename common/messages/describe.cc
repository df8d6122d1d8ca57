#include "common/messages/describe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/messages/handshake.h"
#include "common/messages/unknown_fields.h"

namespace tandem::messages {

absl::Status FillDescription(const v1::DescribeRequest& request, const v1::Welcome& welcome,
                             const std::function<uint32_t(uint32_t token)>& token_hash,
                             v1::DescribeReply& reply) {
  TANDEM_RETURN_IF_ERROR(RefuseUnknown(request));
  *reply.mutable_welcome() = welcome;
  const uint32_t from = request.token_hashes_from();
  const uint32_t count = request.token_hashes_count();
  if (count == 0) return absl::OkStatus();
  if (count > kMaxTokenHashes) {
    return absl::InvalidArgumentError(
        absl::StrCat("token_hashes_count is ", count, ", outside 0 to ", kMaxTokenHashes));
  }
  if (token_hash == nullptr) {
    return absl::FailedPreconditionError("this service has no tokenizer, so no token hashes");
  }
  const uint64_t end = std::min(uint64_t{from} + count, uint64_t{welcome.vocabulary_size()});
  for (uint64_t token = from; token < end; ++token) {
    reply.add_token_hashes(token_hash(static_cast<uint32_t>(token)));
  }
  return absl::OkStatus();
}

}  // namespace tandem::messages
