// The header wall: gRPC, Protobuf and OpenTelemetry's OTLP exporter live in one process with
// LibTorch, which brings an old Protobuf of its own. Each of them does some work here.
#include <opentelemetry/exporters/otlp/otlp_grpc_exporter_factory.h>
#include <opentelemetry/exporters/otlp/otlp_grpc_exporter_options.h>
#include <opentelemetry/sdk/trace/exporter.h>

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "model/load.h"
#include "model/reference.h"
#include "tandem/v1/generation.pb.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

TEST(WallTest, ProtobufGrpcOtlpAndLibTorchInOneProcess) {
  // Protobuf: parsed text and bytes, both ways.
  v1::GenerateRequest request = GreedyRequest({{1, 2, 3}}, 4, 2);
  v1::GenerateRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(request.SerializeAsString()));
  EXPECT_EQ(parsed.ids().ids_size(), 3);
  EXPECT_FALSE(parsed.ParseFromString("\xff\xff\xff"));

  // The exporter: made, and shut down with nobody at its other end.
  opentelemetry::exporter::otlp::OtlpGrpcExporterOptions options;
  options.endpoint = "127.0.0.1:1";
  auto exporter = opentelemetry::exporter::otlp::OtlpGrpcExporterFactory::Create(options);
  ASSERT_NE(exporter, nullptr);
  EXPECT_TRUE(exporter->Shutdown(std::chrono::milliseconds(100)));

  // LibTorch: the reference; our own steps, through three services, agree with it.
  auto reference = model::Reference::Load(DemoTarget());
  ASSERT_TRUE(reference.ok()) << reference.status();
  InProcessCluster cluster(DemoOptions());
  Reply reply = Send(cluster.channel(), request);
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  std::vector<uint32_t> tokens = {1, 2, 3};
  for (uint32_t id : reply.ids) {
    const std::vector<float> logits = (*reference)->Logits(tokens);
    const size_t vocabulary_size = (*reference)->vocabulary_size();
    const absl::Span<const float> row(logits.data() + (tokens.size() - 1) * vocabulary_size,
                                      vocabulary_size);
    EXPECT_EQ(sampling::ArgMax(row, cluster.tokenizer().vocabulary_size()), id);
    tokens.push_back(id);
  }
}

}  // namespace
}  // namespace tandem::testing
