#include "torch/loading.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/process/room.h"
#include "model/decoder.h"
#include "model/memory_need.h"
#include "model/packed_linear.h"
#include "model/rope_table.h"
#include "torch/card.h"
#include "torch/graphs/pass_inputs.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/kernels/device_judge.h"
#include "torch/path_choice.h"
#include "torch/phases.h"
#include "torch/spec_check.h"
#include "torch/torch_model.h"

namespace tandem::torch {
namespace {

using model::DecoderSpec;
using model::DecoderTensors;
using model::Dtype;

constexpr size_t kCheckedLayers = 2;
constexpr int kCheckedWindow = 11;
constexpr int kCheckPages = 16;  // as CheckModel says
constexpr int kCheckRows = 64;   // of the reference's passes
constexpr int kTileRepeats = 20;
constexpr int kRowsInTiles = 256;  // up to which passes of a processor are computed in tiles

// Of a file's matrices; that of the logits' stands for all.
ComputeType FileType(const DecoderTensors& tensors) {
  if (tensors.output->dtype == "BF16") return ComputeType::kBfloat16;
  if (tensors.output->dtype == "F16") return ComputeType::kFloat16;
  return ComputeType::kFloat32;
}

ComputeType TypeFor(const LoadOptions& options, const DecoderTensors& tensors) {
  if (tensors.int8) return ComputeType::kInt8;
  if (options.type.has_value()) return *options.type;
  if (options.model.dtype == Dtype::kInt8) return ComputeType::kInt8;
  if (options.model.dtype == Dtype::kBfloat16) return ComputeType::kBfloat16;
  if (options.model.dtype == Dtype::kFloat16) return ComputeType::kFloat16;
  if (options.model.dtype == Dtype::kFloat32 || options.device != kCuda) {
    return ComputeType::kFloat32;
  }
  return FileType(tensors);
}

// StepOptions::others. What an int8 checkpoint has in floating point stays so, unless it is asked
// to be int8.
std::optional<ComputeType> OthersFor(const LoadOptions& options, const DecoderTensors& tensors) {
  if (!tensors.int8 || options.model.dtype == Dtype::kInt8) return std::nullopt;
  return options.device == kCuda ? FileType(tensors) : ComputeType::kFloat32;
}

const char* TypeName(ComputeType type) {
  if (type == ComputeType::kBfloat16) return "bf16";
  if (type == ComputeType::kFloat16) return "fp16";
  if (type == ComputeType::kInt8) return "int8";
  return "fp32";
}

// Of queries, keys and values.
bool HasSixteenBits(ComputeType type) {
  return type == ComputeType::kBfloat16 || type == ComputeType::kFloat16;
}

// As model/ counts the bytes of weights.
Dtype HeldAs(ComputeType type) {
  if (type == ComputeType::kInt8) return Dtype::kInt8ByRow;
  return HasSixteenBits(type) ? Dtype::kBfloat16 : Dtype::kFloat32;
}

Dtype HeldAs(Dtype dtype) { return dtype == Dtype::kInt8 ? Dtype::kInt8ByRow : dtype; }

// What rounding may do to a row of the first layers, and no wrong operation stays below.
double Tolerance(ComputeType type) {
  if (type == ComputeType::kBfloat16) return 0.2;
  if (type == ComputeType::kFloat16) return 0.03;
  // Where fp32 differs in its last place, a whole number may be the next one.
  if (type == ComputeType::kInt8) return 0.1;
  return 1e-4;
}

// Whether every matrix keeps the file's values. Those that are int8 there always do; their scales,
// [n, 1], are held as fp32.
bool Exact(ComputeType type, const model::ModelFiles& files) {
  if (type == ComputeType::kFloat32) return true;
  if (type == ComputeType::kInt8) return false;
  const char* kept = type == ComputeType::kBfloat16 ? "BF16" : "F16";
  for (const auto& [name, view] : files.checkpoint.tensors()) {
    const bool scale = view.shape.size() == 2 && view.shape[1] == 1;
    if (view.shape.size() == 2 && !scale && view.dtype != "I8" && view.dtype != kept) return false;
  }
  return true;
}

// "torch-2.13.0/cpu-AVX512/tile-32/fp32/gather/threads-2",
// "torch-2.13.0/NVIDIA-H200-132-SMs/tile-64/bf16/spans-graphs": all that bits depend on.
std::string NumericsId(const Library& library, const StepOptions& options, const StepInfo& info,
                       const kernels::CardFacts& card) {
  // By the number of multiprocessors products are cut, and a MIG slice told from its card.
  const std::string device = card.multiprocessors == 0
                                 ? info.device
                                 : absl::StrCat(card.name, " ", card.multiprocessors, " SMs");
  std::string id = absl::StrCat(
      "torch-", library.torch_version, "/", absl::StrReplaceAll(device, {{" ", "-"}}), "/tile-",
      info.tile, "/", TypeName(options.type),
      options.others.has_value() ? absl::StrCat("/others-", TypeName(*options.others)) : "", "/",
      PathName({options.attention, options.graphs}));
  if (options.device == "cpu") absl::StrAppend(&id, "/threads-", options.threads);
  return id;
}

absl::StatusOr<kernels::CardFacts> FactsOf(int card) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<kernels::CudaDriver> driver,
                          kernels::CudaDriver::Load(card));
  TANDEM_RETURN_IF_ERROR(driver->MakeCurrent());
  return driver->Facts();
}

}  // namespace

// The first layers of a model, and the first one of each other kind, as a model of their own. Its
// windows are shorter than the texts of the self-check.
struct Loading::Small {
  Small(const DecoderSpec& whole, const DecoderTensors& all) : spec(whole), tensors(all) {
    std::vector<model::LayerSpec> kinds;
    tensors.layers.clear();
    for (size_t i = 0; i < all.layers.size(); ++i) {
      const model::LayerSpec kind =
          whole.layer_specs.empty() ? model::LayerSpec() : whole.layer_specs[i];
      auto alike = [&kind](const model::LayerSpec& other) {
        return other.sliding == kind.sliding && other.rotated == kind.rotated;
      };
      if (i >= kCheckedLayers && std::any_of(kinds.begin(), kinds.end(), alike)) continue;
      kinds.push_back(kind);
      tensors.layers.push_back(all.layers[i]);
    }
    spec.layers = static_cast<int>(kinds.size());
    if (!whole.layer_specs.empty()) spec.layer_specs = std::move(kinds);
    spec.sliding_window = std::min(whole.sliding_window, kCheckedWindow);
  }

  DecoderSpec spec;
  DecoderTensors tensors;
  std::shared_ptr<const StepWeights> weights;  // null: not loaded yet
  std::unique_ptr<model::Decoder> reference;   // null: not made yet
};

absl::StatusOr<Loading> Loading::Begin(const LoadOptions& options, const Library& library) {
  if (options.model.offload) {
    return absl::InvalidArgumentError("--offload is for --device=cpu");
  }
  if (options.model.dtype == Dtype::kInt4) {
    return absl::InvalidArgumentError(
        "--dtype=int4 is for --device=cpu; with LibTorch give int8, or auto for what the file has");
  }
  if (options.model.cache_dtype != Dtype::kAuto) {
    return absl::InvalidArgumentError(
        "--kv-cache-dtype is for --device=cpu; LibTorch holds keys and values as it computes");
  }
  if (options.model.max_rows > kMostCheckedRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-rows=", options.model.max_rows, ": LibTorch takes at most ",
                     kMostCheckedRows, " rows per pass, which is what the self-check compares"));
  }
  TANDEM_ASSIGN_OR_RETURN(
      model::ModelFiles files,
      model::ReadModelFiles(options.model.directory, options.model.sampling_defaults,
                            [&](const model::ModelConfig& config) {
                              TANDEM_RETURN_IF_ERROR(CheckSpec(config.spec));
                              TANDEM_RETURN_IF_ERROR(model::CheckWholeOutput(config));
                              return model::CheckDtype(config, HeldAs(options.model.dtype));
                            }));
  if (model::HasBlocks(files.tensors)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.model.directory,
                     ": weights in blocks of a GGUF, or packed in four bits, are for --device=cpu; "
                     "give the model that they were made from"));
  }
  Loading loading(options, library, std::move(files));
  if (options.device == kCuda) {
    // Where there is no driver, LibTorch says all that is missing.
    if (auto facts = FactsOf(options.card); facts.ok()) loading.card_ = *std::move(facts);
  }
  if (options.mma_attention && !loading.TakesMma()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--mma-attention is for bf16 and fp16, and for heads of a multiple of 8 numbers "
        "up to ",
        kernels::kMaxHeadSize, "; this model is computed in ", TypeName(loading.type_),
        ", its heads have ", loading.files_.config.spec.head_size));
  }
  TANDEM_RETURN_IF_ERROR(loading.CheckRoom().status());
  return loading;
}

bool Loading::TakesMma() const {
  return HasSixteenBits(type_) &&
         kernels::MmaTakes(static_cast<uint32_t>(files_.config.spec.head_size));
}

Loading::Loading(const LoadOptions& options, const Library& library, model::ModelFiles files)
    : options_(&options),
      library_(&library),
      files_(std::move(files)),
      type_(TypeFor(options, files_.tensors)),
      others_(OthersFor(options, files_.tensors)),
      tile_(options.tile) {}

absl::Status Loading::ChooseTile() {
  if (options_->device != kCuda || tile_ != 0) return absl::OkStatus();
  std::vector<TileCost> costs;
  for (const int tile : kTiles) {
    tile_ = tile;
    TANDEM_ASSIGN_OR_RETURN(const absl::Duration took, TileCostOf());
    costs.push_back({tile, took});
  }
  tile_ = torch::ChooseTile(costs);
  TANDEM_LOG(kInfo)
      << base::LogFields("tile_chosen").Add("tile", tile_).Add("us_by_tile", TileCostsText(costs));
  return absl::OkStatus();
}

// Of one row, and so of one tile, by the fastest way that works: without graphs the time is the
// host's, which is the same for every tile.
absl::StatusOr<absl::Duration> Loading::TileCostOf() const {
  absl::Status failed;
  for (const Path& path : Paths()) {
    absl::StatusOr<std::unique_ptr<TorchModel>> device = MakeSmall(path, /*max_rows=*/tile_);
    if (!device.ok()) {
      failed = device.status();
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(const std::vector<CostPoint> cost,
                            MeasureCost(**device, /*max_rows=*/1, kTileRepeats));
    return cost.front().took;
  }
  return failed;
}

std::vector<Path> Loading::Paths() const {
  std::vector<Path> paths;
  const bool small_heads = files_.config.spec.head_size <= static_cast<int>(kernels::kMaxHeadSize);
  if (options_->device == kCuda && small_heads) {
    // Without graphs a pass takes as long as its launches do.
    if (options_->mma_attention) paths = {{Attention::kMma, true}, {Attention::kMma, false}};
    for (const bool graphs : {true, false}) paths.push_back({Attention::kSpans, graphs});
  }
  paths.push_back({Attention::kGather});
  return paths;
}

absl::StatusOr<std::vector<CheckResult>> Loading::Check(const Path& path) const {
  if (const auto options = OptionsFor(path); !options.ok()) {
    return std::vector<CheckResult>{{"kernels", options.status()}};
  }
  const absl::StatusOr<std::unique_ptr<TorchModel>> device =
      MakeSmall(path, options_->model.max_rows);
  if (!device.ok() && path.graphs) return std::vector<CheckResult>{{"capture", device.status()}};
  TANDEM_RETURN_IF_ERROR(device.status());
  Small& small = Checked();
  if (small.reference == nullptr) {
    model::DecoderOptions decoder;
    decoder.threads = options_->model.threads;
    decoder.max_rows = kCheckRows;
    decoder.pool_tokens = kCheckPages * kPageTokens;
    small.reference = std::make_unique<model::Decoder>(
        small.spec,
        model::DecoderWeights(
            small.spec, small.tensors,
            type_ == ComputeType::kInt8 && !others_ ? Dtype::kInt8ByRow : Dtype::kAuto, nullptr),
        decoder, model::ModelInfo());
  }
  const CheckSize size = Size();
  std::vector<CheckResult> results = CheckModel(**device, *small.reference, Tolerance(type_), size);
  if (path.graphs) {
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<TorchModel> eager,
                            MakeSmall({path.attention}, options_->model.max_rows));
    results.push_back({"eager", CheckSameBits(**device, *eager, size)});
  }
  return results;
}

CheckSize Loading::Size() const {
  return options_->device == kCuda ? CheckSizeOfCard(tile_) : CheckSize();
}

bool Loading::HasLongPasses() const {
  return options_->model.max_rows > (options_->device == kCuda ? tile_ : kRowsInTiles);
}

absl::Status Loading::CheckProducts(const Path& path) const {
  const auto with = [&](bool graphs, bool whole_products) {
    return MakeSmall({path.attention, graphs, whole_products}, options_->model.max_rows);
  };
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<TorchModel> tiles, with(path.graphs, false));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<TorchModel> whole, with(path.graphs, true));
  TANDEM_RETURN_IF_ERROR(CheckWholeProducts(*whole, *tiles, tiles->step().info().tile));
  if (!path.graphs) return absl::OkStatus();
  // Long contexts are computed without their graph.
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<TorchModel> eager, with(false, true));
  return CheckSameBits(*whole, *eager, Size());
}

Loading::Small& Loading::Checked() const {
  if (small_ == nullptr) {
    small_ = std::make_shared<Small>(files_.config.spec, files_.tensors);
  }
  return *small_;
}

absl::StatusOr<std::unique_ptr<TorchModel>> Loading::MakeSmall(const Path& path,
                                                               int max_rows) const {
  TANDEM_ASSIGN_OR_RETURN(StepOptions options, OptionsFor(path));
  options.max_rows = max_rows;
  options.pages = kCheckPages;
  options.progress = nullptr;
  Small& small = Checked();
  if (small.weights == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(small.weights,
                            library_->load_weights(options, small.spec, small.tensors));
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Step> step,
                          library_->make_step(options, small.spec, small.weights));
  return ModelOf(small.spec, options, std::move(step), model::ModelInfo());
}

absl::StatusOr<int> Loading::Pages() const {
  const DecoderSpec& spec = files_.config.spec;
  const auto whole = [](int64_t tokens) {
    return static_cast<int>((tokens + kPageTokens - 1) / kPageTokens);
  };
  const int64_t asked = options_->model.pool_tokens;
  if (asked > 0) return whole(asked);
  if (options_->device != kCuda || options_->gpu_memory_utilization == 0) {
    return whole(model::DefaultPoolTokens(TokenBytes(), spec.context_length,
                                          Need(/*cache_bytes=*/0, options_->model.max_rows),
                                          FreeMemory()));
  }
  CardRoom room;
  room.free_bytes = card_.free_bytes;
  room.utilization = options_->gpu_memory_utilization;
  room.max_rows = options_->model.max_rows;
  for (const process::MemoryPart& part : Need(/*cache_bytes=*/0, room.max_rows)) {
    if (part.name == "weights") room.weight_bytes = part.bytes;
    if (part.name == "activations" || part.name == "judge") room.pass_bytes += part.bytes;
  }
  room.page_bytes = kPageTokens * TokenBytes();
  return PagesThatFit(room, whole(spec.context_length));
}

absl::StatusOr<std::unique_ptr<TorchModel>> Loading::Finish(const Path& path,
                                                            model::LoadReport& report) const {
  small_.reset();  // the device's memory is the whole model's now
  const DecoderSpec& spec = files_.config.spec;
  TANDEM_ASSIGN_OR_RETURN(StepOptions options, OptionsFor(path));
  TANDEM_ASSIGN_OR_RETURN(options.pages, Pages());
  Phases phases;
  // It reads all weights as the device does: at the same time, so a file comes from its disk once.
  std::future<absl::StatusOr<model::ModelInfo>> hashed;
  if (weights_ == nullptr) {
    hashed = std::async(std::launch::async,
                        [this] { return files_.Info(HeldAs(options_->model.dtype)); });
    TANDEM_ASSIGN_OR_RETURN(weights_, library_->load_weights(options, spec, files_.tensors));
    phases.End("weights");
  }
  absl::StatusOr<std::unique_ptr<Step>> step = library_->make_step(options, spec, weights_);
  phases.End(options.graphs ? "graphs" : "rest");
  if (hashed.valid()) {
    TANDEM_ASSIGN_OR_RETURN(info_, hashed.get());
    phases.End("hash");
  }
  TANDEM_RETURN_IF_ERROR(step.status());
  report.phases = phases.all();
  report.dtype = options_->model.dtype;
  report.file_bytes = files_.bytes();
  report.weight_bytes = (*step)->info().weight_bytes;
  report.exact = Exact(others_.value_or(type_), files_);
  report.cache_tokens = options.pages * int64_t{kPageTokens};
  report.cache_bytes = options.pages * int64_t{kPageTokens} * TokenBytes();
  return ModelOf(spec, options, *std::move(step), info_);
}

std::unique_ptr<TorchModel> Loading::ModelOf(const DecoderSpec& spec, const StepOptions& options,
                                             std::unique_ptr<Step> step,
                                             model::ModelInfo info) const {
  info.vocabulary_size = static_cast<uint32_t>(spec.vocabulary_size);
  info.context_length = static_cast<uint32_t>(spec.context_length);
  info.numerics_id = NumericsId(*library_, options, step->info(), card_);
  return std::make_unique<TorchModel>(std::move(step), options.max_rows, options.pages,
                                      std::move(info));
}

absl::StatusOr<StepOptions> Loading::OptionsFor(const Path& path) const {
  const DecoderSpec& spec = files_.config.spec;
  StepOptions options;
  options.device = options_->device == kCuda ? "cuda" : "cpu";
  options.card = options_->card;
  options.type = type_;
  options.others = others_;
  options.attention = path.attention;
  options.graphs = path.graphs;
  options.whole_products = path.whole_products;
  options.tile = tile_;
  options.threads = options_->model.threads;
  options.max_rows = options_->model.max_rows;
  options.rope_frequencies = model::RopeFrequencies(spec.rope, spec.head_size);
  if (spec.sliding_rope.has_value()) {
    options.sliding_rope_frequencies = model::RopeFrequencies(*spec.sliding_rope, spec.head_size);
  }
  options.progress = options_->model.progress;
  if (path.attention != Attention::kGather) {
    if (kernels_ == nullptr) {
      TANDEM_ASSIGN_OR_RETURN(kernels_, options_->pass_kernels(options_->card));
    }
    options.kernels = kernels_;
  }
  return options;
}

int64_t Loading::TokenBytes() const {
  const DecoderSpec& spec = files_.config.spec;
  return int64_t{2} * spec.kv_size() * spec.layers * (HasSixteenBits(type_) ? 2 : 4);
}

std::vector<process::MemoryPart> Loading::Need(int64_t cache_bytes, int max_rows) const {
  const DecoderSpec& spec = files_.config.spec;
  const int rows = RowSizes(tile_ > 0 ? tile_ : kTiles[0], max_rows).back();
  std::vector<process::MemoryPart> need = model::MemoryNeed(
      spec, files_.tensors, HeldAs(others_.value_or(type_)), /*pool_tokens=*/0, rows);
  for (process::MemoryPart& part : need) {
    if (part.name == "cache") part.bytes = cache_bytes;
    // Logits are there twice, as the product and in fp32; so is what a product of all rows gives.
    const int64_t more =
        spec.vocabulary_size + 2 * spec.intermediate_size + int64_t{2} * spec.hidden_size;
    if (part.name == "activations") part.bytes += 4 * rows * more;
  }
  // On a processor the device's memory is this process's. A card's targets judge there.
  if (options_->device != kCuda) need.push_back(process::ServiceRoom());
  if (options_->device == kCuda && !options_->model.draft) {
    need.push_back({"judge", static_cast<int64_t>(kernels::DeviceJudge::WorkspaceBytes(
                                 static_cast<uint32_t>(spec.vocabulary_size), max_rows))});
  }
  return need;
}

process::FreeMemory Loading::FreeMemory() const {
  process::FreeMemory free;
  if (options_->device == kCuda) {
    if (card_.free_bytes > 0) free.memory_bytes = card_.free_bytes;
    return free;
  }
  free = process::ThisFreeMemory();
  free.memory_bytes -= process::WrittenMemory() + options_->model.reserved_bytes;
  return free;
}

absl::StatusOr<int64_t> Loading::CheckRoom() const {
  const int rows = options_->model.max_rows;
  const process::FreeMemory free = FreeMemory();
  int64_t tokens = options_->model.pool_tokens;
  // By --gpu-memory-utilization, which Pages() follows.
  const bool by_utilization = options_->device == kCuda && options_->gpu_memory_utilization > 0;
  if (tokens == 0 && !by_utilization) {
    tokens = model::DefaultPoolTokens(TokenBytes(), files_.config.spec.context_length,
                                      Need(/*cache_bytes=*/0, rows), free);
  }
  const std::vector<process::MemoryPart> need = Need(tokens * TokenBytes(), rows);
  int64_t bytes = 0;
  for (const process::MemoryPart& part : need) bytes += part.is_written ? part.bytes : 0;
  const bool on_card = options_->device == kCuda;
  TANDEM_RETURN_IF_ERROR(model::CheckRoom(options_->model.directory, need, TokenBytes(),
                                          files_.config.spec.context_length,
                                          options_->model.draft ? 0 : rows, free, on_card));
  return on_card ? 0 : bytes;
}

}  // namespace tandem::torch
