// The names of spans and of their attributes: one place, so that a trace, a query and a test agree.
#pragma once

namespace tandem::telemetry {

// Spans. A request's tree:
//
//   generate                          orchestrator  a Generate call, from arrival to last message
//   └ round                           orchestrator  one round of a sample
//     ├ draft.propose                 orchestrator  the wait for a block
//     │ └ draft_service.propose       draft         from the Advance's arrival to its block
//     └ verify                        orchestrator  the wait for a verdict; one per Step
//       ├ target.step                 target        from the Step's arrival to its verdict
//       └ target.step                 target        of a chained one behind it, which the next
//                                                   round waits for
//   target.pass                       target        one pass of the device; a trace of its own
//
// target.pass links to the parents (verify) of each target.step that it served. Each target.step
// links to the pass that decided it.
inline constexpr char kGenerateSpan[] = "generate";
inline constexpr char kRoundSpan[] = "round";
inline constexpr char kProposeSpan[] = "draft.propose";
inline constexpr char kDraftServiceSpan[] = "draft_service.propose";
inline constexpr char kVerifySpan[] = "verify";
inline constexpr char kStepSpan[] = "target.step";
inline constexpr char kPassSpan[] = "target.pass";

// Attributes. Durations are integers, in microseconds.
inline constexpr char kRequestId[] = "tandem.request_id";
inline constexpr char kUser[] = "enduser.id";  // the client's word for its user
inline constexpr char kSampleIndex[] = "tandem.sample_index";
inline constexpr char kRound[] = "tandem.round";                 // number within the sample, from 0
inline constexpr char kRule[] = "tandem.rule";                   // greedy, speculative, ...
inline constexpr char kCommitted[] = "tandem.committed";         // tokens before the round
inline constexpr char kMaxTokens[] = "tandem.max_draft_tokens";  // draft tokens that were asked for
inline constexpr char kDrafted[] = "tandem.draft_tokens";        // draft tokens that came
inline constexpr char kDraftDepth[] = "tandem.draft_depth";      // of a tree: on its longest path
inline constexpr char kNode[] = "tandem.node";                   // of a tree: the last accepted
inline constexpr char kCachedTokens[] = "tandem.cached_tokens";  // of other sequences of the scope
inline constexpr char kAccepted[] = "tandem.accepted_tokens";    // of these
inline constexpr char kTokens[] = "tandem.tokens";               // that the text got
inline constexpr char kCause[] = "tandem.plain_cause";           // why there was no draft
inline constexpr char kLengthChosen[] =
    "tandem.length.chosen";  // draft tokens, by the length policy
inline constexpr char kLengthZero[] = "tandem.length.zero_cause";  // why it chose 0
inline constexpr char kLengthAlpha[] = "tandem.length.alpha";      // its estimates
inline constexpr char kLengthDraftToken[] = "tandem.length.draft_token_us";
inline constexpr char kLengthMinConfidence[] = "tandem.length.min_confidence";
inline constexpr char kLengthNodes[] = "tandem.length.nodes";
inline constexpr char kPrepared[] =
    "tandem.prepared";  // hit, chained, miss or late (generation.proto, RoundRecord)
inline constexpr char kChained[] =
    "tandem.chained";  // a Step behind the one that its parent awaits
inline constexpr char kDrafterReason[] = "tandem.drafter.reason";  // why
inline constexpr char kStageDraft[] = "tandem.stage.draft_us";     // generation.proto, Stages
inline constexpr char kStageNetwork[] = "tandem.stage.network_us";
inline constexpr char kStageSlot[] = "tandem.stage.slot_us";
inline constexpr char kStageQueue[] = "tandem.stage.queue_us";
inline constexpr char kStageDevice[] = "tandem.stage.device_us";
inline constexpr char kStageOwn[] = "tandem.stage.own_us";
inline constexpr char kPassId[] = "tandem.pass_id";
inline constexpr char kPassRows[] = "tandem.pass_rows";
inline constexpr char kPassSequences[] = "tandem.pass_sequences";
inline constexpr char kPrefill[] = "tandem.prefill_us";  // of queue and device: for prompts
inline constexpr char kRows[] = "tandem.rows";           // of this span's own part
inline constexpr char kQueued[] = "tandem.queued_us";    // waiting for the device or the thread
inline constexpr char kComputed[] = "tandem.computed_us";
inline constexpr char kStatus[] = "tandem.status";  // of a Step or an Advance
inline constexpr char kDrafter[] = "tandem.drafter";
inline constexpr char kPromptTokens[] = "tandem.prompt_tokens";
inline constexpr char kOutputTokens[] = "tandem.output_tokens";
inline constexpr char kFinish[] = "tandem.finish_reason";
inline constexpr char kSamples[] = "tandem.samples";  // texts of the request

// Attributes by OpenTelemetry's semantic conventions: those of version 1.45, and of gen_ai. They
// stand beside our names. No text of a prompt, of an output or of a stop string is an attribute.
inline constexpr char kErrorType[] = "error.type";  // on every span that failed
inline constexpr char kServerAddress[] = "server.address";
inline constexpr char kServerPort[] = "server.port";
inline constexpr char kRpcSystem[] = "rpc.system.name";  // "grpc"
inline constexpr char kRpcMethod[] = "rpc.method";       // "tandem.internal.v1.Target/Verify"
inline constexpr char kRpcStatus[] = "rpc.response.status_code";
inline constexpr char kHttpMethod[] = "http.request.method";
inline constexpr char kHttpRoute[] = "http.route";
inline constexpr char kHttpStatus[] = "http.response.status_code";
inline constexpr char kHttpVersion[] = "network.protocol.version";
inline constexpr char kUrlPath[] = "url.path";
inline constexpr char kUrlScheme[] = "url.scheme";
inline constexpr char kGenAiOperation[] = "gen_ai.operation.name";  // chat, text_completion
inline constexpr char kGenAiProvider[] = "gen_ai.provider.name";    // "tandem"
inline constexpr char kGenAiModel[] = "gen_ai.request.model";
inline constexpr char kGenAiOutput[] = "gen_ai.output.type";  // "text"
inline constexpr char kGenAiStream[] = "gen_ai.request.stream";
inline constexpr char kGenAiChoices[] = "gen_ai.request.choice.count";
inline constexpr char kGenAiMaxTokens[] = "gen_ai.request.max_tokens";
inline constexpr char kGenAiTemperature[] = "gen_ai.request.temperature";
inline constexpr char kGenAiTopP[] = "gen_ai.request.top_p";
inline constexpr char kGenAiTopK[] = "gen_ai.request.top_k";
inline constexpr char kGenAiFrequencyPenalty[] = "gen_ai.request.frequency_penalty";
inline constexpr char kGenAiPresencePenalty[] = "gen_ai.request.presence_penalty";
inline constexpr char kGenAiSeed[] = "gen_ai.request.seed";
inline constexpr char kGenAiResponseId[] = "gen_ai.response.id";
inline constexpr char kGenAiResponseModel[] = "gen_ai.response.model";
inline constexpr char kGenAiFinishReasons[] = "gen_ai.response.finish_reasons";
inline constexpr char kGenAiInputTokens[] = "gen_ai.usage.input_tokens";
inline constexpr char kGenAiCachedTokens[] = "gen_ai.usage.cache_read.input_tokens";
inline constexpr char kGenAiOutputTokens[] = "gen_ai.usage.output_tokens";

// Their values.
inline constexpr char kGrpc[] = "grpc";
inline constexpr char kGenerateMethod[] = "tandem.v1.Generation/Generate";
inline constexpr char kProposeMethod[] = "tandem.internal.v1.Draft/Propose";
inline constexpr char kVerifyMethod[] = "tandem.internal.v1.Target/Verify";
inline constexpr char kProvider[] = "tandem";

// Events.
inline constexpr char kAdmittedEvent[] = "admitted";  // generate: a place was found for it
inline constexpr char kReplayEvent[] = "replay";      // round: a Step came to nothing

}  // namespace tandem::telemetry
