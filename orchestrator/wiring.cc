#include "orchestrator/wiring.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/concurrency/thread_cpu_clock.h"
#include "common/concurrency/worker_pool.h"
#include "common/messages/handshake.h"
#include "common/process/machine.h"
#include "common/random/system.h"
#include "common/security/bearer_tokens.h"
#include "common/telemetry/metrics_text.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "common/transport/channel.h"
#include "orchestrator/draft/choice/common_drafters.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/draft/draft_greeting.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/draft/length/common_length.h"
#include "orchestrator/generate/generate_service.h"
#include "orchestrator/generate/generator.h"
#include "orchestrator/log/request_log.h"
#include "orchestrator/metrics/families.h"
#include "orchestrator/metrics/orchestrator_metrics.h"
#include "orchestrator/openai/openai_service.h"
#include "orchestrator/options.h"
#include "orchestrator/peers/directory.h"
#include "orchestrator/peers/links.h"
#include "orchestrator/peers/peer_check.h"
#include "orchestrator/peers/refusal_counts.h"
#include "orchestrator/request/internal_reason.h"
#include "orchestrator/stream/unread_replies.h"
#include "orchestrator/trace/request_trace.h"
#include "orchestrator/verify/target_pool.h"
#include "orchestrator/verify/verify_client.h"

namespace tandem::orchestrator {
namespace {

// Long prompts have half of the processors at most, and stand back where others want those.
int LongPromptThreads() { return std::max(1, process::ThisMachine().cpus / 2); }
constexpr int kStandBack = 19;

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
        std::unique_ptr<const tokenizer::ChatTemplate> chat_template,
        transport::ChannelSecurity security, std::unique_ptr<security::BearerTokens> tokens)
      : chat_template_(std::move(chat_template)),
        security_(std::move(security)),
        tokens_(std::move(tokens)) {
    if (options.client_id.empty()) options.client_id = NewClientId();
    process_ = {"orchestrator", std::string(base::Version()), options.client_id,
                options.ServedModelName()};
    internal::v1::Hello hello;
    hello.set_protocol_revision(messages::kProtocolRevision);
    hello.set_client_id(options.client_id);
    hello.set_incarnation(messages::NextIncarnation());
    // The tokenizer is compared on this side, which can name the first token that differs.
    const std::shared_ptr<const TokenizerIdentity> identity = Identify(tokenizer);

    verify_ = MakeTargetPool(options, hello, identity);
    draft_ = MakeDraftPool(options, hello, identity);
    GenerateParts parts;
    parts.model_name = options.ServedModelName();
    parts.loop = options.loop;
    parts.length_mode = options.length_mode();
    parts.prepare = options.prepare;
    parts.default_drafters = options.drafters();
    parts.lengths = &lengths_;
    drafters_ = std::make_unique<CommonDrafters>(options.always_tries_drafters);
    parts.drafters = drafters_.get();
    parts.default_max_tokens = options.default_max_tokens;
    parts.verify = verify_.get();
    parts.draft = draft_.get();
    parts.timers = &timers_;
    parts.clock = &clock_;
    parts.cpu_clock = &cpu_clock_;
    parts.decide = options.decide;
    parts.chat_template = chat_template_.get();
    UnreadLimits unread;
    unread.max_calls = options.open_calls();
    unread.max_bytes = options.max_unread_bytes;
    unread_ = std::make_shared<UnreadReplies>(unread);
    parts.unread = unread_;
    parts.workers = &workers_;
    parts.worker_threads = static_cast<size_t>(process::ThisMachine().cpus);
    parts.long_prompt_workers = &long_prompt_workers_;
    parts.long_prompt_threads = static_cast<size_t>(LongPromptThreads());
    if (options.tracer != nullptr) {
      parts.watchers.push_back(TraceRequests(*options.tracer, options.ServedModelName()));
    }
    parts.watchers.push_back(metrics_.Watcher());
    parts.watchers.push_back(LogRequests());
    parts.speculation_totals = [this] { return metrics_.Speculation(); };
    const AdmissionOptions admission{options.max_active_requests, options.max_waiting_requests,
                                     options.admission_patience};
    generator_ =
        std::make_unique<Generator>(std::move(parts), tokenizer, admission, options.client_id);
    service_ = std::make_unique<GenerateService>(*generator_, clock_, tokens_.get(),
                                                 size_t{options.max_unchecked_mib} << 20);
    openai_ = MakeOpenAi(options, tokenizer);
    if (draft_ != nullptr) {
      draft_names_ =
          Follow("draft", options, options.draft_addresses, options.draft_channels, draft_);
    }
    target_names_ =
        Follow("target", options, options.target_addresses, options.target_channels, verify_);
  }

  ~Wired() override {
    Drain(absl::ZeroDuration());
    long_prompt_workers_.Close();
    workers_.Close();
    target_names_.reset();
    draft_names_.reset();
    StopGreetings();
    verify_->Stop();
  }

  grpc::Service* grpc_service() override { return service_.get(); }
  http::Handler& http_handler() override { return *openai_; }

  absl::Status Ready() const override {
    if (generator_->draining()) return absl::UnavailableError("the orchestrator is shutting down");
    return verify_->Ready();
  }

  size_t active_requests() const override { return generator_->active_requests(); }
  size_t waiting_requests() const override { return generator_->waiting_requests(); }
  size_t open_calls() const override { return service_->open_calls() + openai_->open_calls(); }

  std::string MetricsText() const override {
    std::vector<prometheus::MetricFamily> families = metrics_.Collect();
    std::vector<v1::Peer> peers = verify_->Peers();
    if (draft_ != nullptr) {
      for (v1::Peer& peer : draft_->Peers()) peers.push_back(std::move(peer));
    }
    for (prometheus::MetricFamily& family : UnreadFamilies(unread_->counts())) {
      families.push_back(std::move(family));
    }
    for (prometheus::MetricFamily& family : PeerFamilies(peers, refusals_->counts())) {
      families.push_back(std::move(family));
    }
    return telemetry::MetricsText(std::move(families), process_);
  }

  void Refuse() override { generator_->Refuse(); }
  void Drain(absl::Duration grace) override { generator_->Drain(grace); }

 private:
  // Channels that are used instead of addresses.
  using Channels = std::map<std::string, std::shared_ptr<grpc::Channel>>;
  static Channels Given(const std::vector<std::shared_ptr<grpc::Channel>>& channels) {
    Channels given;
    for (const auto& channel : channels) {
      given[absl::StrCat("in this process #", given.size())] = channel;
    }
    return given;
  }

  std::unique_ptr<OpenAiService> MakeOpenAi(
      const Options& options, const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer) {
    OpenAiOptions openai;
    openai.model_name = options.ServedModelName();
    openai.chat_template = chat_template_.get();
    openai.max_request_bytes = size_t{options.max_unchecked_mib} << 20;
    openai.max_answer_bytes = options.max_unread_bytes;
    openai.browser_guard = options.browser_guard;
    openai.worker_threads = static_cast<size_t>(process::ThisMachine().cpus);
    openai.long_prompt_workers = &long_prompt_workers_;
    openai.long_prompt_threads = static_cast<size_t>(LongPromptThreads());
    openai.ready = [this] {
      const absl::Status ready = Ready();
      return ready.ok() || generator_->draining() ? ready : NoTargetReady(ready);
    };
    openai.metrics = [this] { return MetricsText(); };
    return std::make_unique<OpenAiService>(std::move(openai), *generator_, tokenizer, clock_,
                                           workers_, tokens_.get());
  }

  // Tells `pool` which peers there are, as long as the result lives.
  template <typename Pool>
  std::unique_ptr<Directory> Follow(absl::string_view kind, const Options& options,
                                    const std::vector<std::string>& addresses,
                                    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                    std::shared_ptr<Pool> pool) {
    if (!channels.empty()) {
      PeerList list;
      for (const auto& [name, channel] : Given(channels)) list.peers.push_back({name, name});
      pool->SetPeers(list);
      return nullptr;
    }
    auto names = base::ParseAddressList(kind, absl::StrJoin(addresses, ","));
    TANDEM_CHECK(names.ok()) << names.status();  // validated before
    DirectoryOptions directory;
    directory.kind = kind;
    directory.names = *std::move(names);
    directory.every = options.resolve_every;
    directory.seed = random::FromSystem();
    return std::make_unique<Directory>(
        std::move(directory), timers_,
        [pool = std::move(pool)](const PeerList& list) { pool->SetPeers(list); });
  }

  std::shared_ptr<grpc::Channel> ChannelTo(const PeerAddress& peer, const Channels& given) const {
    const auto known = given.find(peer.address);
    if (known != given.end()) return known->second;
    transport::ChannelSecurity security = security_;
    // A certificate is valid for the name that was given, not for an address that the name resolved
    // to.
    if (security.credentials != nullptr && security.server_name.empty() &&
        peer.name != peer.address) {
      auto name = base::ParseAddress("peer", peer.name);
      TANDEM_CHECK(name.ok()) << name.status();
      security.server_name = name->host;
    }
    return transport::MakeChannel(peer.address, security);
  }

  std::shared_ptr<TargetPool> MakeTargetPool(
      const Options& options, const internal::v1::Hello& hello,
      const std::shared_ptr<const TokenizerIdentity>& identity) {
    VerifyClientOptions verify;
    verify.hello = hello;
    verify.backoff_min = options.loop.backoff_min;
    verify.backoff_max = options.loop.backoff_max;
    auto make = [this, verify, identity,
                 given = Given(options.target_channels)](const PeerAddress& peer) {
      VerifyClientOptions its = verify;
      its.target = peer;
      its.jitter_seed = random::FromSystem();
      const auto channel = ChannelTo(peer, given);
      return std::make_shared<VerifyClient>(
          std::move(its), TargetStreams(channel),
          refusals_->Counted(v1::Peer::ROLE_TARGET, peer.address,
                             MakePeerCheck(absl::StrCat("target ", Called(peer)), identity,
                                           DescribeTarget(channel))),
          timers_, clock_);
    };
    return std::make_shared<TargetPool>(
        std::move(make), timers_, clock_,
        TargetPoolOptions{options.ejection_min, options.ejection_max, random::FromSystem()});
  }

  std::shared_ptr<DraftPool> MakeDraftPool(
      const Options& options, const internal::v1::Hello& hello,
      const std::shared_ptr<const TokenizerIdentity>& identity) {
    if (options.draft_addresses.empty() && options.draft_channels.empty()) return nullptr;
    auto make = [this, hello, identity,
                 given = Given(options.draft_channels)](const PeerAddress& peer) {
      const auto channel = ChannelTo(peer, given);
      // So that the first request need not wait. A channel inside the process has no such state.
      if (given.empty()) channel->GetState(/*try_to_connect=*/true);
      internal::v1::Hello its = hello;
      its.set_incarnation(messages::NextIncarnation());
      const CheckWelcome check = refusals_->Counted(
          v1::Peer::ROLE_DRAFT, peer.address,
          MakePeerCheck(absl::StrCat("draft ", Called(peer)), identity, DescribeDraft(channel)));
      auto client =
          std::make_shared<DraftClient>(peer, std::move(its), DraftStreams(channel), check);
      Greet(client, DescribeDraft(channel), check);
      return client;
    };
    return std::make_shared<DraftPool>(
        std::move(make), clock_,
        DraftPoolOptions{options.ejection_min, options.ejection_max, random::FromSystem()});
  }

  void Greet(const std::shared_ptr<DraftClient>& draft, DescribePeer describe,
             const CheckWelcome& check) {
    DraftGreetingOptions options;
    options.jitter_seed = random::FromSystem();
    auto greeting =
        std::make_shared<DraftGreeting>(draft, std::move(describe), check, timers_, options);
    {
      concurrency::MutexLock lock(greetings_mutex_);
      std::erase_if(greetings_, [](const auto& other) { return other.expired(); });
      greetings_.push_back(greeting);
    }
    greeting->Start();
  }
  // Before the timers end.
  void StopGreetings() {
    concurrency::MutexLock lock(greetings_mutex_);
    for (const std::weak_ptr<DraftGreeting>& one : greetings_) {
      if (const auto greeting = one.lock()) greeting->Stop();
    }
  }

  const std::unique_ptr<const tokenizer::ChatTemplate> chat_template_;  // null: there is none
  const transport::ChannelSecurity security_;
  const std::unique_ptr<security::BearerTokens> tokens_;  // null: everybody may call
  concurrency::SteadyClock clock_;
  concurrency::ThreadCpuClock cpu_clock_;
  concurrency::ThreadTimers timers_{"loop-timers"};
  concurrency::WorkerPool workers_{"requests", process::ThisMachine().cpus};
  concurrency::WorkerPool long_prompt_workers_{"long-prompts", LongPromptThreads(), kStandBack};
  telemetry::ProcessInfo process_;
  OrchestratorMetrics metrics_;
  const std::shared_ptr<RefusalCounts> refusals_ = std::make_shared<RefusalCounts>();
  std::shared_ptr<TargetPool> verify_;
  std::shared_ptr<DraftPool> draft_;
  std::shared_ptr<UnreadReplies> unread_;
  CommonLength lengths_;
  std::unique_ptr<CommonDrafters> drafters_;
  concurrency::Mutex greetings_mutex_;
  std::vector<std::weak_ptr<DraftGreeting>> greetings_ TANDEM_GUARDED_BY(greetings_mutex_);
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<GenerateService> service_;
  std::unique_ptr<OpenAiService> openai_;
  std::unique_ptr<Directory> target_names_;  // null: there are channels in place of addresses
  std::unique_ptr<Directory> draft_names_;   // null: as above, or no draft is configured
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
  std::unique_ptr<const tokenizer::ChatTemplate> chat_template;
  if (!options.tokenizer_directory.empty()) {
    TANDEM_ASSIGN_OR_RETURN(chat_template,
                            tokenizer::ChatTemplate::Load(options.tokenizer_directory,
                                                          options.chat_template_file, *tokenizer));
  }
  if (chat_template != nullptr && !chat_template->missing().empty()) {
    TANDEM_LOG(kWarning) << base::LogFields("chat_template_lacks")
                                .Add("missing", chat_template->missing())
                                .Add("hint",
                                     "conversations for which the template uses it are refused");
  }
  TANDEM_ASSIGN_OR_RETURN(transport::ChannelSecurity security,
                          transport::MakeChannelSecurity(options.peer_tls));
  std::unique_ptr<security::BearerTokens> tokens;
  if (!options.token_file.empty()) {
    TANDEM_ASSIGN_OR_RETURN(tokens, security::BearerTokens::Load(options.token_file));
  }
  return std::make_unique<Wired>(std::move(options), std::move(tokenizer), std::move(chat_template),
                                 std::move(security), std::move(tokens));
}

}  // namespace tandem::orchestrator
