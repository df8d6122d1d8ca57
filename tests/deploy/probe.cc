#include "tests/deploy/probe.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <future>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/common/admin/http_client.h"

namespace tandem::testing {

bool Probe(const std::string& address, const std::string& service, absl::Duration timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  grpc::GenericStub stub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  // HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1}: SERVING is 1.
  const std::string bytes =
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, char(service.size())), service);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &reply,
                 [&done](const grpc::Status& status) { done.set_value(status); });
  if (!done.get_future().get().ok()) return false;
  std::vector<grpc::Slice> slices;
  if (!reply.Dump(&slices).ok()) return false;
  std::string text;
  for (const grpc::Slice& part : slices) {
    text.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return text == "\x08\x01";
}

absl::StatusOr<Scrape> GetMetrics(const std::string& host, int port) {
  const std::string answer =
      admin::Http(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", host);
  const std::vector<std::string> parts = absl::StrSplit(answer, absl::MaxSplits("\r\n\r\n", 1));
  if (parts.size() < 2 || !absl::StartsWith(parts[0], "HTTP/1.1 200 ")) {
    return absl::UnavailableError(absl::StrCat("no metrics from ", host, ": ", parts[0]));
  }
  return ParseMetrics(parts[1]);
}

}  // namespace tandem::testing
