#include "orchestrator/wiring.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/concurrency/system_clock.h"
#include "common/config/address.h"
#include "common/config/status_macros.h"
#include "common/config/version.h"
#include "common/random/system.h"
#include "common/rpc/bearer_tokens.h"
#include "common/rpc/channel.h"
#include "common/rpc/handshake.h"
#include "common/telemetry/metrics_text.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/generate/generate_service.h"
#include "orchestrator/generate/thread_cpu_clock.h"
#include "orchestrator/log/request_log.h"
#include "orchestrator/metrics/families.h"
#include "orchestrator/metrics/orchestrator_metrics.h"
#include "orchestrator/peers/links.h"
#include "orchestrator/peers/peer_check.h"
#include "orchestrator/trace/request_trace.h"
#include "orchestrator/verify/target_pool.h"
#include "orchestrator/verify/verify_client.h"

namespace tandem::orchestrator {
namespace {

std::shared_ptr<const TokenizerIdentity> Identify(
    const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer) {
  auto identity = std::make_shared<TokenizerIdentity>();
  identity->content_id = tokenizer->content_id();
  const auto& hashes = tokenizer->token_hashes();
  identity->token_hashes.assign(hashes.begin(), hashes.end());
  identity->token_text = [tokenizer](uint32_t id) {
    absl::StatusOr<std::string> text = tokenizer->Decode({id});
    return text.ok() && !text->empty() ? absl::StrCat("\"", *text, "\"")
                                       : std::string("a special token");
  };
  return identity;
}

class Wired final : public Orchestrator {
 public:
  Wired(Options options, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
        rpc::ChannelSecurity security, std::unique_ptr<rpc::BearerTokens> tokens)
      : security_(std::move(security)), tokens_(std::move(tokens)) {
    if (options.client_id.empty()) options.client_id = NewClientId();
    process_ = {"orchestrator", std::string(config::Version()), options.client_id};
    v1::Hello hello;
    hello.set_protocol_revision(rpc::kProtocolRevision);
    hello.set_client_id(options.client_id);
    hello.set_incarnation(rpc::NextIncarnation());
    // The tokenizer is compared on this side, which can name the first token that differs.
    const std::shared_ptr<const TokenizerIdentity> identity = Identify(tokenizer);

    verify_ = MakeTargetPool(options, hello, identity);
    draft_ = MakeDraftPool(options, hello, identity);
    GenerateParts parts;
    parts.loop = options.loop;
    parts.verify = verify_.get();
    parts.draft = draft_.get();
    parts.timers = &timers_;
    parts.clock = &clock_;
    parts.work_clock = &cpu_clock_;
    parts.decide = options.decide;
    parts.tokens = tokens_.get();
    if (options.tracer != nullptr) {
      parts.watchers.push_back(TraceRequests(*options.tracer, clock_));
    }
    parts.watchers.push_back(metrics_.Watcher());
    parts.watchers.push_back(LogRequests());
    const AdmissionOptions admission{options.most_active_requests, options.most_waiting_requests,
                                     options.admission_patience};
    service_ = std::make_unique<GenerateService>(std::move(parts), std::move(tokenizer), admission,
                                                 options.client_id);
    verify_->SetPeers(Static(options.target_addresses, options.target_channels.size()));
  }

  ~Wired() override {
    Drain(absl::ZeroDuration());
    verify_->Stop();
  }

  grpc::Service* grpc_service() override { return service_.get(); }

  absl::Status Ready() const override {
    if (service_->draining()) return absl::UnavailableError("the orchestrator is shutting down");
    return verify_->Ready();
  }

  size_t active_requests() const override { return service_->active_requests(); }
  size_t waiting_requests() const override { return service_->waiting_requests(); }

  std::string MetricsText() const override {
    std::vector<prometheus::MetricFamily> families = metrics_.Collect();
    std::vector<v1::Peer> peers = verify_->Peers();
    if (draft_ != nullptr) {
      for (v1::Peer& peer : draft_->Peers()) peers.push_back(std::move(peer));
    }
    families.push_back(PeerFamily(peers));
    return telemetry::MetricsText(std::move(families), process_);
  }

  void Refuse() override { service_->Refuse(); }
  void Drain(absl::Duration grace) override { service_->Drain(grace); }

 private:
  // A peer's way in, and its name in messages.
  struct Way {
    std::string name;
    std::shared_ptr<grpc::Channel> channel;
  };
  std::vector<Way> Ways(const std::vector<std::string>& addresses,
                        const std::vector<std::shared_ptr<grpc::Channel>>& channels) const {
    std::vector<Way> ways;
    for (size_t i = 0; i < channels.size(); ++i) {
      ways.push_back({i < addresses.size() ? addresses[i] : absl::StrCat("in this process #", i),
                      channels[i]});
    }
    if (!channels.empty()) return ways;
    for (const std::string& address : addresses) {
      ways.push_back({address, rpc::MakeChannel(address, security_)});
    }
    return ways;
  }

  // Under TLS a certificate is for the name that was given, not for an address that it resolved to.
  std::shared_ptr<grpc::Channel> ChannelTo(const PeerAddress& peer) const {
    rpc::ChannelSecurity security = security_;
    if (security.credentials != nullptr && security.server_name.empty() &&
        peer.name != peer.address) {
      absl::StatusOr<config::Address> name = config::ParseAddress("peer", peer.name);
      if (name.ok()) security.server_name = name->host;
    }
    return rpc::MakeChannel(peer.address, security);
  }

  // Those of the options; a channel in place of an address is used as it is.
  static PeerList Static(const std::vector<std::string>& addresses, size_t channels) {
    PeerList list;
    for (size_t i = 0; i < channels; ++i) {
      const std::string name = absl::StrCat("in this process #", i);
      list.peers.push_back({name, name});
    }
    if (channels > 0) return list;
    for (const std::string& address : addresses) list.peers.push_back({address, address});
    return list;
  }

  std::shared_ptr<TargetPool> MakeTargetPool(
      const Options& options, const v1::Hello& hello,
      const std::shared_ptr<const TokenizerIdentity>& identity) {
    VerifyClientOptions verify;
    verify.hello = hello;
    verify.backoff_least = options.loop.backoff_least;
    verify.backoff_most = options.loop.backoff_most;
    std::map<std::string, std::shared_ptr<grpc::Channel>> given;
    for (size_t i = 0; i < options.target_channels.size(); ++i) {
      given[absl::StrCat("in this process #", i)] = options.target_channels[i];
    }
    auto make = [this, verify, identity, given](const PeerAddress& peer) {
      VerifyClientOptions its = verify;
      its.target = peer;
      its.jitter_seed = random::FromSystem();
      const auto known = given.find(peer.address);
      const auto channel = known == given.end() ? ChannelTo(peer) : known->second;
      return std::make_shared<VerifyClient>(
          std::move(its), TargetStreams(channel),
          MakePeerCheck(absl::StrCat("target ", Called(peer)), identity, DescribeTarget(channel)),
          timers_, clock_);
    };
    return std::make_shared<TargetPool>(
        std::move(make), timers_, clock_,
        TargetPoolOptions{options.ejection_least, options.ejection_most, random::FromSystem()});
  }

  std::shared_ptr<DraftPool> MakeDraftPool(
      const Options& options, const v1::Hello& hello,
      const std::shared_ptr<const TokenizerIdentity>& identity) {
    std::vector<std::shared_ptr<DraftClient>> clients;
    for (const Way& way : Ways(options.draft_addresses, options.draft_channels)) {
      way.channel->GetState(/*try_to_connect=*/true);  // so that the first request need not wait
      clients.push_back(std::make_shared<DraftClient>(
          way.name, hello, DraftStreams(way.channel),
          MakePeerCheck(absl::StrCat("draft ", way.name), identity, DescribeDraft(way.channel))));
    }
    if (clients.empty()) return nullptr;
    return std::make_shared<DraftPool>(std::move(clients), clock_, options.loop.backoff_least,
                                       options.loop.backoff_most, random::FromSystem());
  }

  const rpc::ChannelSecurity security_;
  const std::unique_ptr<rpc::BearerTokens> tokens_;  // null: everybody may call
  concurrency::SteadyClock clock_;
  ThreadCpuClock cpu_clock_;
  concurrency::ThreadTimers timers_{"loop-timers"};
  telemetry::ProcessInfo process_;
  OrchestratorMetrics metrics_;
  std::shared_ptr<TargetPool> verify_;
  std::shared_ptr<DraftPool> draft_;
  std::unique_ptr<GenerateService> service_;
};

}  // namespace

std::string NewClientId() {
  char host[49] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return absl::StrFormat("%s-%d-%08x", host, getpid(), static_cast<uint32_t>(random::FromSystem()));
}

absl::StatusOr<std::unique_ptr<Orchestrator>> Orchestrator::Create(Options options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer = options.tokenizer;
  if (tokenizer == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(tokenizer, tokenizer::Tokenizer::Load(options.tokenizer_directory));
  }
  TANDEM_ASSIGN_OR_RETURN(rpc::ChannelSecurity security,
                          rpc::MakeChannelSecurity(options.peer_tls));
  std::unique_ptr<rpc::BearerTokens> tokens;
  if (!options.token_file.empty()) {
    TANDEM_ASSIGN_OR_RETURN(tokens, rpc::BearerTokens::Load(options.token_file));
  }
  return std::make_unique<Wired>(std::move(options), std::move(tokenizer), std::move(security),
                                 std::move(tokens));
}

}  // namespace tandem::orchestrator
